// The page: joins the conversation by voice, typed words and files with the face, the log and the buttons. Knows which
// element does what; how things are done, the other modules know.

import { Conversation } from "./conversation.js";
import { Doing } from "./doing.js";
import { Face } from "./face.js";
import { holdToTalk } from "./hold.js";
import { fileLevels } from "./levels.js";
import { TOKEN_CODES } from "./link.js";
import { Log } from "./log.js";
import { Microphone } from "./microphone.js";
import { Mouth } from "./mouth.js";
import { $, Problem, clearProblem, leaveButtons, say, sayNothing, showLanguage, showPressed, showProblem } from "./page.js";
import { VOICE_RATE_HZ } from "./protocol.js";
import { toWav } from "./recording.js";
import { askToken, call, callAfterTurn, getToken, me, newConversation, showServer, takeTokenFromAddress, watchServer } from "./server.js";
import { Speaker } from "./speaker.js";
import { getLanguage, text } from "./text.js";

const SHORT_PRESS_MS = 400;
const LARGEST_FILE_BYTES = 100e6;

const unlock = () => speaker.unlock(VOICE_RATE_HZ);

// --- face and states ---------------------------------------------------------------------------------------------

function showEmotion(id) {
  face.setEmotion(id);
  $("face").setAttribute("aria-label", text("face", { emotion: text(`emotion.${face.emotion}`) }));
}

function act({ emotion, action }) {
  showEmotion(emotion);
  face.act(action);
}

let heldTurn = false; // the button was let go: a turn should come of it
let busy = false; // with words that were typed or sent as a file
let spoken = null; // levels of the sound that is played as a whole

// What the robot does now, and which buttons can be pressed.
function showState() {
  const { state, link, mode } = conversation;
  const { muted } = conversation.microphone;
  const isPlaying = speaker.playing !== null && !speaker.isDry;
  const now = busy || (heldTurn && !conversation.isInTurn) ? "thinking" : isPlaying ? "speaking" : { error: "thinking", idle: "" }[state] ?? state;
  // The microphone opens a moment before the server knows of it.
  doing.show(now !== "listening" ? now : !mode ? "" : muted ? "muted" : now, ["waiting", "replaced", "refused", "broken"].includes(link.state));
  $("stop").setAttribute("aria-disabled", !(isPlaying || conversation.isInTurn));
  for (const id of ["send", "choose"]) $(id).setAttribute("aria-disabled", busy); // not `disabled`: that would take the focus away
  $("record").setAttribute("aria-disabled", busy || mode === "realtime");
  $("open").setAttribute("aria-disabled", busy || conversation.holding);
  $("mute-microphone").hidden = !(mode === "realtime" || muted);
}

const mouth = new Mouth((level) => face.setMouth(face.calm.matches ? 0 : level), () => {
  if (speaker.playing === null || speaker.isDry) return null;
  return spoken?.name === speaker.playing ? spoken.levels[Math.floor(speaker.heardMs / spoken.stepMs)] ?? 0 : conversation.level;
});

function interrupt(reason) {
  if (conversation.interrupt(reason)) sayNothing($("caption"));
  showState();
}

// --- the conversation by voice -----------------------------------------------------------------------------------

let mine = null; // the bubble of what is being said
let answer = null; // the bubble of the answer

const live = {
  link(state, about) {
    $("again").hidden = !["waiting", "replaced", "refused"].includes(state);
    if ($("again").dataset.t !== `again.${state}` && !$("again").hidden) say($("again"), `again.${state}`);
    if (state !== "open") heldTurn = false;
    if (state === "open") {
      showServer("ready");
      clearProblem("link_lost", "unreachable", "starting", "overloaded", "replaced", "refused", ...TOKEN_CODES);
    } else if (state === "waiting") {
      showServer("lost", { seconds: about.seconds });
      if (about.code === "starting") watchServer().then(() => conversation.link.state === "waiting" && conversation.link.connect());
      else if (about.code === "overloaded") showProblem(new Problem("overloaded"));
    } else if (state === "replaced") {
      showServer("replaced");
    } else if (state === "refused") {
      showServer("refused");
      askToken(about.code).then((given) => (given ? conversation.link.connect() : showProblem(new Problem(about.code))));
    } else if (state === "broken") {
      showServer("broken");
      showProblem(new Problem(about.code || "broken", about.message));
    } else if ($("server").dataset.state === "starting") {
      showServer("connecting");
    }
    showState();
  },
  session(id, isNew) {
    me.session = id;
    if (isNew) answer = mine = null;
    // A turn that ended while nobody was here to hear of it.
    else if (answer?.turnId) setTimeout(fetchMissed, 500, answer);
  },
  state(value) {
    if (value === "thinking" || value === "speaking") clearProblem();
    // A typed answer that is still playing is cut by the next question.
    if (value === "thinking" && speaker.playing === "file") speaker.stop();
    if (value === "thinking") answer = null;
    if (heldTurn && value === "idle") {
      heldTurn = false;
      if (!mine && !answer) showProblem(nothingHeard());
    }
    showState();
  },
  transcript(words, isFinal) {
    mine ??= log.mine(null);
    mine.heard(words);
    if (isFinal) mine = null;
    heldTurn = false;
  },
  face: showEmotion,
  action: (id) => face.act(id),
  speaking() {
    answer ??= startAnswer();
    answer.turnId = conversation.turnId;
    spoken = null;
    showState();
  },
  sentence(words) {
    answer ??= startAnswer();
    answer.bubble ??= log.robot();
    answer.bubble.sentence(words);
    sayNothing($("caption"));
    $("caption").textContent = words;
  },
  turn(turn) {
    heldTurn = false;
    if (turn.outcome === "no_speech") {
      if (conversation.mode !== "realtime") showProblem(nothingHeard());
      return;
    }
    complete(answer ?? startAnswer(), turn);
    answer = null;
    if (turn.error) showProblem(new Problem(turn.error.code, turn.error.message));
  },
  trouble(code, words) {
    showProblem(new Problem(code, words));
    showState();
  },
  released() {
    $("record").setAttribute("aria-pressed", "false");
    say($("record").firstElementChild, "record");
    $("open").setAttribute("aria-pressed", conversation.mode === "realtime");
    showState();
  },
  volume(volume) {
    $("volume").value = Math.round(volume * 100);
    setVolume();
  },
  muted: setMicrophoneMuted,
};

const startAnswer = () => ({ turnId: null, bubble: null, done: false });
const nothingHeard = () => new Problem(conversation.microphone.muted ? "mic_muted" : "no_speech");
// Why nobody can be heard now, if so.
function noMicrophone() {
  const { link } = conversation;
  if (!Microphone.available) return new Problem("mic_insecure");
  if (link.isOpen) return null;
  return link.state === "replaced" ? new Problem("replaced") : link.state === "refused" ? new Problem("refused") : new Problem("link_lost");
}

function complete(which, turn) {
  if (which.done) return;
  which.done = true;
  which.bubble ??= log.robot();
  which.bubble.complete(turn);
}

async function fetchMissed(which) {
  if (which.done || conversation.isInTurn) return;
  try {
    const turn = await (await call(`v1/turns/${which.turnId}`)).json();
    if (["done", "failed"].includes(turn.status) && !which.done) live.turn(turn);
  } catch (problem) {
    showProblem(problem);
  }
}

// --- hold to talk: the button or the space key; held, or pressed once to begin and once to end -------------------------

let pressedAt = 0;

async function press() {
  if (conversation.holding) return release(true);
  if (busy || conversation.mode) return;
  unlock();
  const trouble = noMicrophone() ?? (conversation.microphone.muted ? new Problem("mic_muted") : null);
  if (trouble) return showProblem(trouble);
  pressedAt = performance.now();
  $("record").setAttribute("aria-pressed", "true");
  say($("record").firstElementChild, "record.stop");
  sayNothing($("caption"));
  try {
    await conversation.hold();
  } catch (problem) {
    live.released();
    return showProblem(problem);
  }
  if (conversation.mode === "manual") clearProblem();
  else live.released();
  showState();
}

function release(end) {
  if (!conversation.holding || (!end && performance.now() - pressedAt < SHORT_PRESS_MS)) return;
  heldTurn = conversation.mode === "manual";
  conversation.release();
  live.released();
}

holdToTalk($("record"), press, release);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || $("token-dialog").open) return;
  if (!conversation.holding) return interrupt("button");
  conversation.release(false);
  live.released();
});

$("open").addEventListener("click", async () => {
  if ($("open").getAttribute("aria-disabled") === "true") return;
  unlock();
  const open = conversation.mode !== "realtime";
  const trouble = open ? noMicrophone() : null;
  if (trouble) return showProblem(trouble);
  try {
    await conversation.setOpen(open);
    clearProblem();
    if (open && conversation.microphone.muted) showProblem(new Problem("mic_muted"));
  } catch (problem) {
    showProblem(problem);
  }
  live.released();
});
$("mute-microphone").addEventListener("click", () => setMicrophoneMuted(!conversation.microphone.muted));

function setMicrophoneMuted(muted) {
  conversation.microphone.muted = muted;
  showPressed($("mute-microphone"), muted, "mute.microphone");
  if (!muted) clearProblem("mic_silent", "mic_muted");
  showState();
}

// --- typed words and files: by HTTP ---------------------------------------------------------------------------------

// `makeBody`: async, returns {body, type}. `words`: what was typed, or null for a voice.
async function converse(makeBody, words) {
  if (busy || conversation.holding) return;
  busy = true;
  conversation.pause();
  clearProblem();
  const bubble = log.mine(words);
  showState();
  let turn = null;
  try {
    turn = await (await callAfterTurn("v1/turns", await makeBody(), conversation.isInTurn)).json();
    if (conversation.link.state === "refused") conversation.link.connect(); // a token was given for the words
    if (turn.transcript) bubble.heard(turn.transcript, turn.language);
    if (turn.outcome === "no_speech") throw new Problem("no_speech");
    act(turn);
    log.robot().complete(turn);
    if (turn.error) showProblem(new Problem(turn.error.code, turn.error.message));
    else if (!turn.audio) showProblem(new Problem("no_voice"));
  } catch (problem) {
    if (!turn) bubble.lost();
    if (!turn && words !== null && !$("line").value) $("line").value = words;
    showProblem(problem);
  } finally {
    busy = false;
    conversation.resume();
    showState();
  }
  if (turn?.audio) await play(turn.audio.url);
}

async function play(url) {
  try {
    const bytes = await (await call(url)).arrayBuffer();
    if (conversation.isInTurn) return;
    const { samples, levels, stepMs } = await fileLevels(speaker.context, bytes);
    speaker.begin("file");
    spoken = { name: "file", levels, stepMs };
    speaker.add(samples);
    showState();
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

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = $("line").value.trim();
  if (!words || busy || conversation.holding) return;
  unlock();
  $("line").value = "";
  converse(async () => ({ body: JSON.stringify({ text: words }), type: "application/json" }), words);
});
$("choose").addEventListener("click", () => { unlock(); if (!busy) $("file").click(); });
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (!file) return;
  if (file.size > LARGEST_FILE_BYTES) showProblem(new Problem("audio_too_large"));
  else converse(async () => wavBody(await file.arrayBuffer()), null);
  $("file").value = "";
});

// --- the rest of the page --------------------------------------------------------------------------------------------

function setVolume() {
  localStorage.stackchanVolume = $("volume").value;
  speaker.setVolume($("volume").value / 100);
  $("volume").setAttribute("aria-valuetext", `${$("volume").value} %`);
}

function changeLanguage(id) {
  showLanguage(id);
  showEmotion(face.emotion);
}

const face = new Face($("face"));
const doing = new Doing(face);
const speaker = new Speaker({
  onTick() {
    conversation.tick();
    showState();
    if (speaker.playing === null || speaker.isDry) sayNothing($("caption"));
    else mouth.follow();
  },
});
const log = new Log({
  replay(turn) {
    unlock();
    interrupt("button");
    act(turn);
    play(turn.audio.url);
  },
  fetchTrace: async (turnId) => (await (await call(`v1/turns/${turnId}/trace`)).json()).trace,
  onProblem: showProblem,
});
const conversation = new Conversation(() => ({ deviceId: me.deviceId, sessionId: me.session, token: getToken() }), speaker, live);

$("stop").addEventListener("click", () => interrupt("button"));
$("face").addEventListener("click", () => interrupt("touch"));
$("volume").addEventListener("input", setVolume);
$("mute").addEventListener("click", () => {
  speaker.setMuted(!speaker.muted);
  showPressed($("mute"), speaker.muted, "mute");
});
$("again").addEventListener("click", () => { unlock(); conversation.link.connect(); });
$("new").addEventListener("click", () => {
  interrupt("button");
  newConversation();
  log.clear();
  clearProblem();
  answer = mine = null;
  showEmotion("neutral");
  if (conversation.link.isOpen) conversation.link.connect(); // hello names the conversation
  $("record").focus(); // where space talks; in the field it would be a letter
});
leaveButtons();
// The robot may speak first: whatever is done on the page lets it be heard from then on.
for (const kind of ["click", "keydown"]) {
  document.addEventListener(kind, () => {
    if (!(navigator.userActivation?.isActive ?? true)) return;
    unlock();
    clearProblem("sound_locked");
  });
}
$("language").addEventListener("click", () => changeLanguage((localStorage.stackchanLanguage = getLanguage() === "ja" ? "en" : "ja")));
window.addEventListener("hashchange", takeTokenFromAddress);

takeTokenFromAddress();
$("volume").value = localStorage.stackchanVolume ?? 100;
setVolume();
changeLanguage(localStorage.stackchanLanguage ?? (navigator.language.startsWith("ja") ? "ja" : "en"));
watchServer().then(() => conversation.link.connect());
