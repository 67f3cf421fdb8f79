// On the audio thread: what the microphone hears becomes frames of 16-bit mono PCM, posted to the page as they fill.

import { Resampler } from "./resampler.js";

class MicrophoneFrames extends AudioWorkletProcessor {
  constructor({ processorOptions: { rateHz, frameSamples } }) {
    super();
    this.resampler = new Resampler(sampleRate, rateHz);
    this.frame = new Int16Array(frameSamples);
    this.filled = 0;
  }

  process([channels]) {
    if (!channels.length) return true; // nothing is connected yet
    const mono = Float32Array.from(channels[0], (_, index) => channels.reduce((sum, each) => sum + each[index], 0) / channels.length);
    for (const sample of this.resampler.push(mono)) {
      this.frame[this.filled++] = Math.round(Math.max(-1, Math.min(1, sample)) * 32767);
      if (this.filled < this.frame.length) continue;
      this.port.postMessage(this.frame.slice());
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor("microphone-frames", MicrophoneFrames);
