// Sound in and out: anything the browser can decode becomes 16 kHz mono WAV; the microphone; playing with its level.
// Knows nothing of the server, the face or language.

export const SPEECH_RATE_HZ = 16000;

// Audio bytes in any format the browser knows -> WAV blob, 16-bit mono 16 kHz. Rejects when they cannot be decoded.
export async function toWav(bytes) {
  // Decoding into a 16 kHz context also resamples.
  const decoded = await new OfflineAudioContext(1, 1, SPEECH_RATE_HZ).decodeAudioData(bytes);
  const channels = Array.from({ length: decoded.numberOfChannels }, (_, index) => decoded.getChannelData(index));
  const view = new DataView(new ArrayBuffer(44 + decoded.length * 2));
  const ascii = (offset, text) => [...text].forEach((letter, index) => view.setUint8(offset + index, letter.charCodeAt(0)));
  ascii(0, "RIFF");
  view.setUint32(4, view.byteLength - 8, true);
  ascii(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // mono
  view.setUint32(24, SPEECH_RATE_HZ, true);
  view.setUint32(28, SPEECH_RATE_HZ * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  ascii(36, "data");
  view.setUint32(40, decoded.length * 2, true);
  for (let index = 0; index < decoded.length; index++) {
    const mean = channels.reduce((sum, channel) => sum + channel[index], 0) / channels.length;
    view.setInt16(44 + index * 2, Math.round(Math.max(-1, Math.min(1, mean)) * 32767), true);
  }
  return new Blob([view.buffer], { type: "audio/wav" });
}

// The microphone, open only while it records.
export class Recorder {
  static get available() {
    return Boolean(navigator.mediaDevices?.getUserMedia && window.MediaRecorder);
  }

  async start() {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    this.parts = [];
    this.recorder = new MediaRecorder(stream, { audioBitsPerSecond: 128000 });
    this.recorder.ondataavailable = (event) => this.parts.push(event.data);
    this.recorder.start();
  }

  // Close the microphone and return what it heard, in the browser's own format.
  async stop() {
    const stopped = new Promise((resolve) => this.recorder.addEventListener("stop", resolve, { once: true }));
    this.recorder.stop();
    await stopped;
    this.recorder.stream.getTracks().forEach((track) => track.stop());
    return new Blob(this.parts).arrayBuffer();
  }
}

// Plays one sound at a time and reports how loud it is (0..1) for each drawn frame.
export class Player {
  constructor(onLevel) {
    this.onLevel = onLevel;
  }

  // Call it from a key or pointer event: browsers let a page make sound only after one.
  unlock() {
    this.context ??= new AudioContext();
    this.context.resume();
  }

  // Resolves when the sound has ended or was stopped. Rejects when the bytes are no audio.
  async play(bytes) {
    this.unlock();
    const buffer = await this.context.decodeAudioData(bytes);
    this.stop();
    const source = new AudioBufferSourceNode(this.context, { buffer });
    const analyser = new AnalyserNode(this.context, { fftSize: 1024 });
    source.connect(analyser).connect(this.context.destination);
    const samples = new Float32Array(analyser.fftSize);
    const follow = () => {
      if (this.source !== source) return;
      analyser.getFloatTimeDomainData(samples);
      const rms = Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
      this.onLevel(Math.min(1, rms * 5));
      requestAnimationFrame(follow);
    };
    this.source = source;
    const ended = new Promise((resolve) => source.addEventListener("ended", resolve, { once: true }));
    source.start();
    follow();
    await ended;
    if (this.source === source) this.source = null;
    this.onLevel(0);
  }

  stop() {
    this.source?.stop();
    this.source = null;
  }
}
