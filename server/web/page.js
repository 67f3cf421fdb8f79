// Words on the page: elements by id, text in the chosen language, and what went wrong. Text from the server enters the
// page as text only.

import { getLanguage, hasText, setLanguage, stepOf, text } from "./text.js";

export const $ = (id) => document.getElementById(id);

export class Problem extends Error {
  constructor(code, message = "", hint = "") {
    super(message);
    Object.assign(this, { code, hint });
  }

  static of(error) {
    return error instanceof Problem ? error : new Problem(error?.code ?? "internal", String(error?.message ?? error));
  }
}

// Put the words for `key` into a node, and keep them in the page's language.
export function say(node, key, values = {}) {
  node.dataset.t = key;
  node.dataset.values = JSON.stringify(values);
  node.textContent = text(key, values);
  return node;
}

export function sayNothing(node) {
  node.textContent = "";
  node.removeAttribute("data-t");
}

// A button that stays pressed says so in words, too.
export function showPressed(button, isPressed, key) {
  button.setAttribute("aria-pressed", isPressed);
  say(button, isPressed ? `${key}.pressed` : key);
}

// Who clicked does not stay on the button: space would press it again, where it is to talk. Keys keep their place.
export function leaveButtons() {
  document.addEventListener("click", ({ detail, target }) => {
    const button = target.closest?.("button, summary");
    if (detail > 0 && button && !button.closest("dialog")) button.blur();
  });
}

export function add(parent, tag, className, words = "") {
  const node = parent.appendChild(document.createElement(tag));
  node.className = className;
  node.textContent = words;
  return node;
}

export function showLanguage(id) {
  setLanguage(id);
  document.documentElement.lang = getLanguage();
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = text(node.dataset.t, JSON.parse(node.dataset.values ?? "{}"));
  for (const node of document.querySelectorAll("[data-t-label]")) node.setAttribute("aria-label", text(node.dataset.tLabel));
  for (const node of document.querySelectorAll("[data-t-placeholder]")) node.placeholder = text(node.dataset.tPlaceholder);
  $("language").textContent = getLanguage() === "ja" ? "English" : "日本語";
  $("language").lang = getLanguage() === "ja" ? "en" : "ja";
}

export function showProblem(error) {
  const problem = Problem.of(error);
  const key = `error.${problem.code}`;
  sayNothing($("problem"));
  const step = stepOf(problem.code);
  if (hasText(key)) say($("problem"), key);
  else if (step) say($("problem"), `step.${problem.code}`, withoutStep(problem, step));
  else $("problem").textContent = [problem.message || problem.code, problem.hint].filter(Boolean).join(" ");
  $("problem").dataset.code = problem.code;
  $("problem").hidden = false;
  $("log").scrollTop = $("log").scrollHeight;
}

// The server's own words, and what it says to do. Where it says the usual, it does so in both languages.
function withoutStep({ code, message, hint }, [english, japanese]) {
  const usual = `${english} / ${japanese}`;
  return { code, message: message.replace(usual, "").trim(), hint: !hint || hint === usual ? english : hint };
}

// Take back what was said to be wrong; with `codes`, only one of these.
export function clearProblem(...codes) {
  if (!codes.length || codes.includes($("problem").dataset.code)) $("problem").hidden = true;
}
