// The microphone, open only while somebody may speak: frames of 16-bit PCM out. Knows no server and no words; what is
// wrong with it is told as a code.

import { FRAME_MS, WIRE_RATE_HZ } from "./protocol.js";

const SILENT_FRAMES = 3000 / FRAME_MS; // a real microphone always hears something; so long exactly nothing is a switch

export class MicrophoneError extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

export class Microphone {
  // `onFrame(ArrayBuffer)`: 20 ms of sound. `onTrouble(code)`: "mic_lost" when it was pulled out (it is closed then),
  // "mic_silent" when it hears exactly nothing.
  constructor({ onFrame, onTrouble }) {
    Object.assign(this, { onFrame, onTrouble, muted: false, stream: null, opening: null });
  }

  // Browsers give a microphone only to pages that nobody on the way can change.
  static get available() {
    return Boolean(window.isSecureContext && navigator.mediaDevices?.getUserMedia && window.AudioWorkletNode);
  }

  // Whether this browser can keep the robot's own voice out of it.
  static get cancelsEcho() {
    return Boolean(Microphone.available && navigator.mediaDevices.getSupportedConstraints().echoCancellation);
  }

  get isOpen() {
    return this.stream !== null;
  }

  // Resolves when frames come. Rejects with a MicrophoneError. May be called again while it opens.
  open() {
    if (this.isOpen) return Promise.resolve();
    this.opening ??= this.#open().finally(() => (this.opening = null));
    return this.opening;
  }

  async #open() {
    if (!Microphone.available) throw new MicrophoneError("mic_insecure");
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true },
      });
    } catch (error) {
      throw new MicrophoneError(CODES[error.name] ?? "mic_missing");
    }
    const context = new AudioContext();
    try {
      await context.audioWorklet.addModule(new URL("microphone-worklet.js", import.meta.url));
      await context.resume();
    } catch {
      stream.getTracks().forEach((track) => track.stop());
      context.close();
      throw new MicrophoneError("mic_missing");
    }
    const node = new AudioWorkletNode(context, "microphone-frames", {
      numberOfOutputs: 0,
      processorOptions: { rateHz: WIRE_RATE_HZ, frameSamples: (WIRE_RATE_HZ * FRAME_MS) / 1000 },
    });
    const [track] = stream.getAudioTracks();
    this.silentFrames = 0;
    node.port.onmessage = ({ data }) => this.isOpen && this.stream === stream && this.#take(data);
    track.addEventListener("ended", () => {
      if (this.stream !== stream) return;
      this.close();
      this.onTrouble("mic_lost");
    });
    const source = context.createMediaStreamSource(stream);
    source.connect(node);
    // The source is kept here: some browsers drop one that nothing refers to, and the sound ends.
    Object.assign(this, { stream, context, source, track });
  }

  #take(frame) {
    if (this.muted) frame.fill(0);
    else if (frame.some(Boolean)) this.silentFrames = 0;
    else if (++this.silentFrames === SILENT_FRAMES) this.onTrouble("mic_silent");
    this.onFrame(frame.buffer);
  }

  // Whether the open microphone really does not hear the loudspeaker.
  get isEchoCancelled() {
    return this.track?.getSettings().echoCancellation !== false;
  }

  close() {
    const { stream, context } = this;
    if (!stream) return;
    this.stream = this.track = null;
    stream.getTracks().forEach((track) => track.stop());
    context.close();
  }
}

const CODES = { NotAllowedError: "mic_denied", SecurityError: "mic_denied", NotReadableError: "mic_busy", AbortError: "mic_busy" };
