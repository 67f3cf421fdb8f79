// The connection to the server: one WebSocket that comes back after a cut, unless it must not. Knows when to try again
// and what a close means; not what the messages do.

import { CLOSE, ping, read, readSound } from "./protocol.js";

const WAITS_S = [1, 2, 4, 8, 16, 30];
const PING_MS = 30000;
const PONG_MS = 10000;
const HELLO_MS = 15000;
// The page sends what its microphone gives: too much at once is what was held up on the way.
const PASSING_CODES = ["audio_too_fast"];
export const TOKEN_CODES = ["token_missing", "token_invalid", "device_forbidden", "device_revoked"];

export class Link {
  // `makeHello()`: the first message of a connection. `on`: `message(m)`, `sound(Float32Array)`, and `state(name, about)`:
  // "connecting" | "open" | "waiting" {seconds, code} | "replaced" | "refused" {code} | "broken" {code, message} | "closed".
  // After "replaced", "refused" and "broken" it does not come back by itself.
  constructor(makeHello, on) {
    Object.assign(this, { makeHello, on, socket: null, tries: 0, isOpen: false, state: "closed" });
    // A laptop that wakes up, a network that is back: no need to wait any longer.
    window.addEventListener("online", () => this.state === "waiting" && this.connect());
    // A page that is kept for the back button must not keep the robot.
    window.addEventListener("pagehide", () => this.close());
    window.addEventListener("pageshow", (event) => event.persisted && this.connect());
  }

  connect() {
    clearTimeout(this.waiting);
    this.#drop();
    this.#tell("connecting");
    const socket = new WebSocket(new URL("v1/device", location.href.replace(/^http/, "ws").replace(/[?#].*$/, "")));
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    this.error = null;
    const mine = (act) => (event) => this.socket === socket && act(event);
    socket.onopen = mine(() => this.send(this.makeHello()));
    socket.onmessage = mine(({ data }) => this.#take(data));
    socket.onclose = mine(({ code }) => this.#ended(code));
    this.watchdog = setTimeout(() => this.#ended(0), HELLO_MS);
  }

  // Sends a message, or bytes. False: there is no connection, and it is lost.
  send(message) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(message instanceof ArrayBuffer ? message : JSON.stringify(message));
    return true;
  }

  // How many bytes wait to be sent: sound that cannot go out in time is of no use.
  get backlog() {
    return this.socket?.bufferedAmount ?? 0;
  }

  close() {
    clearTimeout(this.waiting);
    this.#drop();
    this.#tell("closed");
  }

  #take(data) {
    this.#alive();
    if (typeof data !== "string") return this.isOpen && this.on.sound(readSound(data));
    const message = read(data);
    if (!message || message.type === "pong") return;
    if (message.type === "hello") {
      this.isOpen = true;
      this.tries = 0;
      this.#tell("open");
    }
    // Why a connection ends is the last that is said on it; what a turn failed by is not.
    this.error = message.type === "error" ? message : null;
    this.on.message(message);
  }

  // Something came: the next sign of life is asked for in a while.
  #alive() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      this.send(ping());
      this.watchdog = setTimeout(() => this.#ended(0), PONG_MS);
    }, PING_MS);
  }

  #ended(code) {
    this.#drop();
    const because = this.error?.code ?? "";
    if (code === CLOSE.replaced) return this.#tell("replaced");
    if (TOKEN_CODES.includes(because)) return this.#tell("refused", { code: because });
    const isBroken = (code === CLOSE.policy || code === CLOSE.tooLarge) && !PASSING_CODES.includes(because);
    if (isBroken) return this.#tell("broken", { code: because, message: this.error?.message ?? "" });
    const seconds = WAITS_S[Math.min(this.tries++, WAITS_S.length - 1)];
    this.waiting = setTimeout(() => this.connect(), seconds * 1000);
    this.#tell("waiting", { seconds, code: because });
  }

  #drop() {
    clearTimeout(this.watchdog);
    const { socket } = this;
    this.socket = null;
    this.isOpen = false;
    socket?.close();
  }

  #tell(state, about = {}) {
    this.state = state;
    this.on.state(state, about);
  }
}
