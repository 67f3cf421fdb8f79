// The page: takes words or sound, sends a turn, shows and plays the answer. Knows the HTTP interface (docs/http-api.md);
// the face, sound and words have their own modules. Text from the server enters the page as text only.

import { Face } from "./face.js";
import { Player, Recorder, toWav } from "./sound.js";
import { getLanguage, hasText, setLanguage, text } from "./text.js";
import { drawTrace } from "./waterfall.js";

const LONGEST_RECORDING_MS = 58000;
const SHORT_PRESS_MS = 400;
const LARGEST_FILE_BYTES = 100e6;
const $ = (id) => document.getElementById(id);

class Problem extends Error {
  constructor(code, message = "", hint = "") {
    super(message);
    Object.assign(this, { code, hint });
  }
}

// --- words on the page -------------------------------------------------------------------------------------------

function say(node, key, values = {}) {
  node.dataset.t = key;
  node.dataset.values = JSON.stringify(values);
  node.textContent = text(key, values);
  return node;
}

function showLanguage(id) {
  setLanguage(id);
  document.documentElement.lang = getLanguage();
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = text(node.dataset.t, JSON.parse(node.dataset.values ?? "{}"));
  for (const node of document.querySelectorAll("[data-t-label]")) node.setAttribute("aria-label", text(node.dataset.tLabel));
  $("line").placeholder = text("line.hint");
  $("language").textContent = getLanguage() === "ja" ? "English" : "日本語";
  $("language").lang = getLanguage() === "ja" ? "en" : "ja";
  showEmotion(face.emotion);
}

function add(parent, tag, className, words = "") {
  const node = parent.appendChild(document.createElement(tag));
  node.className = className;
  node.textContent = words;
  return node;
}

function showProblem(problem) {
  const key = `error.${problem.code}`;
  const words = hasText(key) ? text(key) : [problem.message || problem.code, problem.hint].filter(Boolean).join(" ");
  $("problem").textContent = words;
  $("problem").hidden = false;
  $("log").scrollTop = $("log").scrollHeight;
}

function showEmotion(id) {
  face.setEmotion(id);
  $("face").setAttribute("aria-label", text("face", { emotion: text(`emotion.${face.emotion}`) }));
}

// --- the server --------------------------------------------------------------------------------------------------

const sessionLabel = () => `web-${[...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
const deviceId = (localStorage.stackchanDevice ??= sessionLabel());
let session = sessionLabel();

function takeTokenFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  sessionStorage.stackchanToken = found;
  history.replaceState(null, "", location.pathname + location.search);
}

// Resolves to true when a token was given.
function askToken(code) {
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
async function call(path, { body, type } = {}) {
  for (;;) {
    const headers = { "Device-Id": deviceId, "Session-Id": session };
    if (type) headers["Content-Type"] = type;
    if (sessionStorage.stackchanToken) headers.Authorization = `Bearer ${sessionStorage.stackchanToken}`;
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
    if (response.status === 401 && (await askToken(hasText(`error.${code}`) ? code : "token_invalid"))) continue;
    if (response.status === 503) watchServer();
    throw new Problem(code, error?.message ?? `HTTP ${response.status}`, error?.hint ?? "");
  }
}

let watching = false;
// Shows how far the server is, until it is ready.
async function watchServer() {
  if (watching) return;
  watching = true;
  for (let state = ""; state !== "ready"; ) {
    let answer = { status: "unreachable" };
    try {
      answer = await (await fetch("readyz")).json();
    } catch { /* not there yet, or a proxy's page */ }
    state = hasText(`server.${answer.status}`) ? answer.status : "unreachable";
    $("server").dataset.state = state;
    if ($("server").dataset.t !== `server.${state}`) say($("server"), `server.${state}`);
    if (state === "failed" && answer.error) showProblem(new Problem("failed", answer.error.message, answer.error.hint));
    if (state !== "ready") await new Promise((resolve) => setTimeout(resolve, 1500));
  }
  watching = false;
}

// --- a turn ------------------------------------------------------------------------------------------------------

let busy = false;
function setState(state) {
  busy = state === "thinking";
  face.setThinking(busy);
  // Not `disabled`: that would take the focus away from somebody who uses the keyboard.
  for (const id of ["send", "choose", "record"]) $(id).setAttribute("aria-disabled", busy);
  if (state) say($("state"), `state.${state}`);
  else Object.assign($("state"), { textContent: "" }).removeAttribute("data-t");
}

// `makeBody`: async, returns {body, type}. `words`: what was typed, or null for a voice.
async function converse(makeBody, words) {
  if (busy) return;
  player.stop();
  $("problem").hidden = true;
  const mine = add($("log"), "div", "mine");
  const said = add(mine, "p", "words", words ?? "");
  if (words === null) say(said, "voice");
  $("log").scrollTop = $("log").scrollHeight;
  setState("thinking");
  let turn = null;
  try {
    turn = await (await call("v1/turns", await makeBody())).json();
    said.removeAttribute("data-t");
    said.textContent = turn.transcript || said.textContent;
    said.lang = turn.language || "";
    if (turn.outcome === "no_speech") throw new Problem("no_speech");
    showAnswer(turn);
  } catch (problem) {
    mine.classList.toggle("lost", !turn);
    if (!turn && words !== null && !$("line").value) $("line").value = words;
    showProblem(problem instanceof Problem ? problem : new Problem("internal", String(problem)));
  } finally {
    setState("");
  }
  if (turn?.audio) await speak(turn.audio.url);
}

function showAnswer(turn) {
  const answer = add($("log"), "div", "robot");
  add(answer, "p", "words", turn.reply).lang = turn.language;
  const tags = add(answer, "p", "tags");
  say(add(tags, "span", "tag"), `emotion.${turn.emotion}`);
  if (turn.action !== "none") say(add(tags, "span", "tag"), `action.${turn.action}`);
  if (turn.audio) {
    const replay = say(add(tags, "button", "replay"), "replay");
    replay.type = "button";
    replay.addEventListener("click", () => { player.unlock(); act(turn); speak(turn.audio.url); });
  }
  showLatency(answer, turn.latency_ms ?? {});
  offerTrace(answer, turn.turn_id);
  $("log").scrollTop = $("log").scrollHeight;
  act(turn);
  if (turn.error) showProblem(new Problem(turn.error.code, turn.error.message));
  else if (!turn.audio) showProblem(new Problem("no_voice"));
}

function act(turn) {
  showEmotion(turn.emotion);
  face.act(turn.action);
}

// Stages overlap on the server, so the bar shows what one waited for: it is cut at the moments the server names.
function showLatency(answer, { vad = 0, asr = 0, first_clause, first_audio, total }) {
  if (!total) return;
  const heard = vad + asr;
  const clause = first_clause ?? first_audio ?? total;
  const sound = first_audio ?? clause;
  const parts = { hear: heard, think: clause - heard, voice: sound - clause, rest: total - sound };
  const seconds = (ms) => (ms / 1000).toFixed(1);
  const bar = add(answer, "div", "bar");
  bar.setAttribute("aria-hidden", "true");
  const caption = add(answer, "p", "latency");
  say(add(caption, "span", ""), first_audio ? "latency" : "latency.silent", { first: seconds(sound), total: seconds(total) });
  for (const [name, ms] of Object.entries(parts)) {
    if (ms < 50) continue; // would be told as 0.0 s
    add(bar, "span", name).style.flexGrow = ms;
    say(add(caption, "span", `key ${name}`), `latency.${name}`, { s: seconds(ms) });
  }
}

function offerTrace(answer, turnId) {
  if (!Number.isInteger(turnId)) return;
  const details = add(answer, "details", "trace");
  say(add(details, "summary", ""), "trace");
  details.addEventListener("toggle", async () => {
    try {
      const { trace } = await (await call(`v1/turns/${turnId}/trace`)).json();
      drawTrace(details, trace, { add, say });
    } catch (problem) {
      showProblem(problem instanceof Problem ? problem : new Problem("internal", String(problem)));
    }
  }, { once: true });
}

async function speak(url) {
  try {
    await player.play(await (await call(url)).arrayBuffer());
  } catch (problem) {
    showProblem(problem instanceof Problem ? problem : new Problem("no_voice"));
  }
}

async function wavBody(bytes) {
  try {
    return { body: await toWav(bytes), type: "audio/wav" };
  } catch {
    throw new Problem("undecodable");
  }
}

// --- the microphone: hold the button, or press it once to begin and once to end -----------------------------------

let recorder = null; // what records now, or a promise of it while the browser asks for permission
let pressedAt = 0;
let stopTimer = 0;

async function press() {
  if (recorder) return release(true);
  if (busy) return;
  player.unlock();
  player.stop();
  if (!Recorder.available) return showProblem(new Problem("mic_insecure"));
  pressedAt = performance.now();
  recorder = new Recorder();
  try {
    await recorder.start();
  } catch (error) {
    recorder = null;
    return showProblem(new Problem(error.name === "NotAllowedError" ? "mic_denied" : "mic_missing"));
  }
  recorder.running = true;
  $("problem").hidden = true;
  $("record").setAttribute("aria-pressed", "true");
  say($("record").firstElementChild, "record.stop");
  setState("listening");
  stopTimer = setTimeout(release, LONGEST_RECORDING_MS, true);
}

async function release(end) {
  if (!recorder?.running || (!end && performance.now() - pressedAt < SHORT_PRESS_MS)) return;
  clearTimeout(stopTimer);
  const stopped = recorder.stop();
  recorder = null;
  $("record").setAttribute("aria-pressed", "false");
  say($("record").firstElementChild, "record");
  await converse(async () => wavBody(await stopped), null);
}

const isPressKey = (event) => event.key === " " || event.key === "Enter";
$("record").addEventListener("pointerdown", (event) => { if (event.button === 0) { $("record").setPointerCapture(event.pointerId); press(); } });
$("record").addEventListener("pointerup", () => release(false));
$("record").addEventListener("pointercancel", () => release(false));
$("record").addEventListener("contextmenu", (event) => event.preventDefault());
$("record").addEventListener("keydown", (event) => { if (isPressKey(event)) { event.preventDefault(); if (!event.repeat) press(); } });
$("record").addEventListener("keyup", (event) => { if (isPressKey(event)) { event.preventDefault(); release(false); } });
// A click without a pointer or a key comes from a screen reader.
$("record").addEventListener("click", (event) => { if (event.detail === 0 && !event.pointerType) press(); });

// --- start -------------------------------------------------------------------------------------------------------

const face = new Face($("face"));
const player = new Player((level) => face.setMouth(face.calm.matches ? 0 : level));

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = $("line").value.trim();
  if (!words || busy || recorder) return;
  player.unlock();
  $("line").value = "";
  converse(async () => ({ body: JSON.stringify({ text: words }), type: "application/json" }), words);
});
$("choose").addEventListener("click", () => { player.unlock(); if (!busy) $("file").click(); });
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (!file) return;
  if (file.size > LARGEST_FILE_BYTES) showProblem(new Problem("audio_too_large"));
  else converse(async () => wavBody(await file.arrayBuffer()), null);
  $("file").value = "";
});
$("new").addEventListener("click", () => {
  player.stop();
  session = sessionLabel();
  $("log").replaceChildren();
  $("problem").hidden = true;
  showEmotion("neutral");
  $("line").focus();
});
$("language").addEventListener("click", () => showLanguage((localStorage.stackchanLanguage = getLanguage() === "ja" ? "en" : "ja")));
window.addEventListener("hashchange", takeTokenFromAddress);

takeTokenFromAddress();
showLanguage(localStorage.stackchanLanguage ?? (navigator.language.startsWith("ja") ? "ja" : "en"));
watchServer();
