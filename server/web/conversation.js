// The live conversation: what is heard goes out, what the robot says is played, and either side can stop the other.
// Puts link, microphone and speaker together by the rules of firmware/PROTOCOL.md; knows no element of the page.

import { Link } from "./link.js";
import { Microphone } from "./microphone.js";
import * as message from "./protocol.js";

const ACKNOWLEDGE_MS = 500;
const MOST_WAITING_BYTES = message.WIRE_RATE_HZ * 2 * 2; // two seconds: later than that nobody wants to be heard

export class Conversation {
  // `hello()`: {deviceId, sessionId, token}. `on`: link(state, about), session(id, isNew), state(value), transcript(text),
  // face(id), action(id), speaking(), sentence(text), turn(answer), trouble(code, message), released(), volume(0..1), muted(flag).
  constructor(hello, speaker, on) {
    Object.assign(this, { speaker, on, mode: null, isPaused: false, state: "idle", holding: false, session: null });
    this.echoCancel = Microphone.cancelsEcho;
    this.#noTurn();
    this.microphone = new Microphone({
      onFrame: (frame) => this.#send(frame),
      onTrouble: (code) => this.#microphoneTrouble(code),
    });
    this.link = new Link(() => message.hello({ ...hello(), echoCancel: this.echoCancel }), {
      state: (state, about) => this.#linkIs(state, about),
      message: (received) => this.#take(received),
      sound: (samples) => this.#hear(samples),
    });
  }

  #noTurn() {
    Object.assign(this, { turnId: null, levels: [], stepMs: 40, sentences: [], acknowledgedMs: 0, acknowledgedAt: 0, isDeaf: true });
  }

  get isInTurn() {
    return ["thinking", "speaking", "error"].includes(this.state);
  }

  get isListening() {
    return this.mode !== null && !this.isPaused;
  }

  // --- the person ---

  // Hold to talk. Resolves when the microphone hears; rejects with a MicrophoneError.
  async hold() {
    if (this.holding || this.mode) return;
    this.holding = true;
    this.interrupt("button");
    try {
      await this.microphone.open();
    } catch (error) {
      this.holding = false;
      throw error;
    }
    if (!this.holding || !this.link.send(message.listenStart("manual"))) return void this.#let(null);
    this.mode = "manual";
  }

  // The end of what was said with the button held. `keep`: answer it; else it is forgotten.
  release(keep = true) {
    if (!this.holding) return;
    const { mode } = this;
    this.#let(null);
    if (mode === "manual") this.link.send(keep ? message.listenStop() : message.abort("cancel"));
  }

  #let(mode) {
    this.holding = false;
    this.mode = mode;
    if (!mode) this.microphone.close();
  }

  // An open microphone, or not. Resolves when it hears; rejects with a MicrophoneError.
  async setOpen(open) {
    if (!open) {
      if (this.mode === "realtime") this.link.send(message.listenStop());
      return void this.#let(null);
    }
    await this.microphone.open();
    this.mode = "realtime";
    if (this.echoCancel && !this.microphone.isEchoCancelled) {
      // Said otherwise in hello; whoever hears himself must not be believed while he speaks.
      this.echoCancel = false;
      this.link.connect();
    } else if (!this.isPaused) {
      this.link.send(message.listenStart("realtime"));
    }
  }

  // While something else is said by HTTP nothing is listened to.
  pause() {
    this.isPaused = true;
    const wasInTurn = this.isInTurn;
    this.interrupt("text");
    if (this.mode) this.link.send(wasInTurn ? message.listenStop() : message.abort("text"));
  }

  resume() {
    this.isPaused = false;
    if (this.mode === "realtime") this.link.send(message.listenStart("realtime"));
  }

  // Silence, now. False: there was nothing to end.
  interrupt(reason) {
    const wasPlaying = this.speaker.playing !== null && !this.speaker.isDry;
    const isMine = this.turnId !== null && this.speaker.playing === this.turnId;
    const heardMs = this.speaker.stop();
    this.isDeaf = true;
    this.sentences = [];
    // First how much was heard: with `abort` the turn ends.
    if (isMine) this.#acknowledge(heardMs);
    if (this.isInTurn) this.link.send(message.abort(reason));
    return wasPlaying || this.isInTurn;
  }

  #send(frame) {
    if (!this.isListening || !this.link.isOpen || this.link.backlog > MOST_WAITING_BYTES) return;
    this.link.send(frame);
  }

  #microphoneTrouble(code) {
    if (code === "mic_lost") {
      const { mode } = this;
      this.#let(null);
      if (mode) this.link.send(message.listenStop());
      this.on.released();
    }
    this.on.trouble(code);
  }

  // --- the server ---

  #linkIs(state, about) {
    const isOver = ["replaced", "refused", "broken"].includes(state);
    if (this.mode && state !== "open" && (this.mode === "manual" || isOver)) {
      // What is being said is lost with the connection; where none comes by itself, nobody listens.
      this.#let(null);
      this.on.released();
    }
    if (state !== "open" && state !== "connecting") this.#shows("idle");
    this.on.link(state, about);
  }

  #shows(state) {
    this.state = state;
    this.on.state(state);
  }

  #take(received) {
    const take = {
      hello: ({ session_id: id, audio }) => this.#greeted(id, audio.sample_rate),
      state: ({ value }) => this.#stateIs(value),
      transcript: ({ text, final }) => this.on.transcript(text, final),
      face: ({ emotion }) => this.on.face(emotion),
      action: ({ id }) => this.on.action(id),
      levels: (levels) => this.#mouth(levels),
      speech: (speech) => this.#speech(speech),
      turn: (answer) => this.on.turn(answer),
      error: ({ code, message: words }) => this.on.trouble(code, words),
      command: (command) => this.link.send(this.#obey(command)),
    }[received.type];
    take(received);
  }

  #greeted(id, rateHz) {
    const isNew = this.session !== null && this.session !== id;
    this.session = id;
    this.rateHz = rateHz;
    if (isNew) this.#noTurn();
    this.on.session(id, isNew);
  }

  #stateIs(value) {
    if (value === "thinking" && this.mode === "manual") {
      // The server found an end: half a minute is the longest.
      this.#let(null);
      this.on.released();
    }
    this.#shows(value);
    if (value === "idle" && this.mode === "realtime" && !this.isPaused) this.link.send(message.listenStart("realtime"));
  }

  #speech({ state, turn_id: turnId, text }) {
    if (state === "start") {
      this.#noTurn();
      this.turnId = turnId;
      if (!this.speaker.mayUnlock) return void this.on.trouble("sound_locked");
      this.speaker.unlock(this.rateHz);
      this.speaker.begin(turnId);
      this.isDeaf = false;
      this.on.speaking();
    } else if (turnId !== this.turnId) {
      return;
    } else if (state === "sentence") {
      // Shown when its sound is heard; without sound, at once.
      if (this.isDeaf && this.speaker.playing !== turnId && !this.speaker.mayUnlock) this.on.sentence(text);
      else if (!this.isDeaf) this.sentences.push([this.speaker.queuedMs, text]);
    } else {
      if (this.speaker.playing === turnId) this.speaker.finish();
      this.isDeaf = true;
      this.tick();
      this.sentences = []; // what was not heard by now comes with the answer
    }
  }

  #mouth({ turn_id: turnId, start_ms: startMs, step_ms: stepMs, values }) {
    if (turnId !== this.turnId) return;
    this.stepMs = stepMs;
    values.forEach((value, index) => (this.levels[Math.round(startMs / stepMs) + index] = value));
  }

  #hear(samples) {
    if (!this.isDeaf && this.speaker.playing === this.turnId) this.speaker.add(samples);
  }

  // How far the mouth is open for what is being heard now, 0 to 1.
  get level() {
    return this.levels[Math.floor(this.speaker.heardMs / this.stepMs)] ?? 0;
  }

  // Call it as the speaker plays: tells the server how much was heard, and the page what is being said.
  tick() {
    if (this.turnId === null || this.speaker.playing !== this.turnId) return;
    const heardMs = this.speaker.heardMs;
    while (this.sentences.length && this.sentences[0][0] <= heardMs) this.on.sentence(this.sentences.shift()[1]);
    if (this.speaker.isDry || performance.now() - this.acknowledgedAt >= ACKNOWLEDGE_MS) this.#acknowledge(heardMs);
  }

  #acknowledge(heardMs) {
    const ms = Math.round(heardMs);
    if (ms === this.acknowledgedMs) return;
    this.acknowledgedMs = ms;
    this.acknowledgedAt = performance.now();
    this.link.send(message.played(this.turnId, ms));
  }

  #obey({ id, name, args }) {
    if (name === "mute" && typeof args?.on === "boolean") {
      this.on.muted(args.on);
      return message.result(id, true);
    }
    const now = Math.round(this.speaker.volume * 100);
    const percent = args?.percent ?? Math.max(0, Math.min(100, now + args?.change));
    if (name === "volume" && Number.isInteger(args?.percent ?? args?.change) && percent >= 0 && percent <= 100) {
      this.on.volume(percent / 100);
      return message.result(id, true, { percent });
    }
    return message.result(id, false, ["volume", "mute"].includes(name) ? "arguments_invalid" : "unknown_command");
  }
}
