// The server by HTTP (docs/http-api.md), who this page is to it, and its owner's token. Knows no turn and no sound.

import { $, Problem, say, showProblem } from "./page.js";
import { hasText, knowsSteps, learnSteps } from "./text.js";

const BUSY_TRIES = 20;
const BUSY_WAIT_MS = 100;

const randomName = () => `web-${[...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

// This browser is one device. `session`: the conversation, by our label until the server has told its own id.
export const me = { deviceId: (localStorage.stackchanDevice ??= randomName()), session: randomName() };

export function newConversation() {
  me.session = randomName();
}

export const getToken = () => sessionStorage.stackchanToken ?? "";

export function takeTokenFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  sessionStorage.stackchanToken = found;
  history.replaceState(null, "", location.pathname + location.search);
}

let asking = null;
// Resolves to true when a token was given. Asked by two at once, it asks once.
export function askToken(code) {
  asking ??= showDialog(hasText(`error.${code}`) ? code : "token_invalid").finally(() => (asking = null));
  return asking;
}

function showDialog(code) {
  say($("token-why"), `error.${code}`);
  $("token").value = "";
  $("token-dialog").returnValue = "cancel";
  $("token-dialog").showModal();
  return new Promise((resolve) => {
    $("token-dialog").addEventListener("close", () => {
      const given = $("token-dialog").returnValue === "ok" && $("token").value.trim();
      // A header takes ASCII only; anything else is no token of ours, and the server will say so.
      if (given) sessionStorage.stackchanToken = given.replace(/[^\x21-\x7e]/g, "?");
      resolve(Boolean(given));
    }, { once: true });
  });
}

// One request; asks for the token as often as the server does. Rejects with a Problem.
export async function call(path, { body, type } = {}) {
  for (;;) {
    const headers = { "Device-Id": me.deviceId, "Session-Id": me.session };
    const token = getToken();
    if (type) headers["Content-Type"] = type;
    if (token) headers.Authorization = `Bearer ${token}`;
    let response;
    try {
      response = await fetch(path, { method: body ? "POST" : "GET", headers, body });
    } catch {
      watchServer();
      throw new Problem("unreachable");
    }
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    const code = error?.code ?? `http_${response.status}`;
    // Another request may have been given a token meanwhile.
    if (response.status === 401 && (getToken() !== token || (await askToken(code)))) continue;
    if (response.status === 503) watchServer();
    throw new Problem(code, error?.message ?? `HTTP ${response.status}`, error?.hint ?? "");
  }
}

// As `call`, where a turn was cut just now (`wasInTurn`): it may need a moment to end.
export async function callAfterTurn(path, body, wasInTurn) {
  for (let tries = 1; ; tries++) {
    try {
      return await call(path, body);
    } catch (problem) {
      if (!wasInTurn || problem.code !== "device_busy" || tries >= BUSY_TRIES) throw problem;
      await new Promise((resolve) => setTimeout(resolve, BUSY_WAIT_MS));
    }
  }
}

let watching = null;
// Shows how far the server is; resolves when it is ready.
export function watchServer() {
  watching ??= watch().finally(() => (watching = null));
  return watching;
}

async function watch() {
  for (;;) {
    let answer = { status: "unreachable" };
    try {
      if (!knowsSteps()) learnSteps(await (await fetch("next-steps.json")).json());
    } catch { /* errors are told in the server's own words then */ }
    try {
      answer = await (await fetch("readyz")).json();
    } catch { /* not there yet, or a proxy's page */ }
    const state = hasText(`server.${answer.status}`) ? answer.status : "unreachable";
    if (state === "ready") return;
    showServer(state);
    if (state === "failed" && answer.error) showProblem(new Problem(answer.error.code, answer.error.message, answer.error.hint));
    await new Promise((resolve) => setTimeout(resolve, 1500));
  }
}

export function showServer(state, values = {}) {
  $("server").dataset.state = state;
  // Said again, it would be read aloud again.
  if ($("server").dataset.t !== `server.${state}` || $("server").dataset.values !== JSON.stringify(values)) say($("server"), `server.${state}`, values);
}
