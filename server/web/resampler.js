// Brings a stream of samples to another rate: windowed sinc, one table of taps for each place between two samples.
// Pure; runs in the microphone's worklet.

const ZEROS_EACH_SIDE = 16; // of the sinc: the transition is about a tenth of the lower rate

const divisor = (a, b) => (b ? divisor(b, a % b) : a);

export class Resampler {
  constructor(fromHz, toHz) {
    const common = divisor(fromHz, toHz);
    this.step = fromHz / common; // input moves on by step / phases samples for each output sample
    this.phases = toHz / common;
    const scale = Math.min(1, toHz / fromHz);
    this.half = Math.ceil(ZEROS_EACH_SIDE / scale);
    this.taps = Array.from({ length: this.phases }, (_, phase) => taps(this.half, phase / this.phases, scale));
    this.waiting = new Float32Array(this.half); // as if silence came before
    this.position = 0; // of the next output sample, in phases, from the first sample that waits
  }

  // Float32Array in, Float32Array out: as many samples as can be made now.
  push(samples) {
    const heard = new Float32Array(this.waiting.length + samples.length);
    heard.set(this.waiting);
    heard.set(samples, this.waiting.length);
    const width = 2 * this.half;
    const made = [];
    let start = Math.floor(this.position / this.phases);
    while (start + width <= heard.length) {
      const filter = this.taps[this.position % this.phases];
      let sum = 0;
      for (let index = 0; index < width; index++) sum += heard[start + index] * filter[index];
      made.push(sum);
      this.position += this.step;
      start = Math.floor(this.position / this.phases);
    }
    this.waiting = heard.slice(Math.min(start, heard.length));
    this.position -= Math.min(start, heard.length) * this.phases;
    return Float32Array.from(made);
  }
}

// What 2 * half input samples count for an output sample that lies `offset` after the one in the middle.
function taps(half, offset, scale) {
  const weights = Float64Array.from({ length: 2 * half }, (_, index) => {
    const distance = index - (half - 1) - offset;
    const x = Math.PI * distance * scale;
    const window = Math.cos((Math.PI * distance) / (2 * half)) ** 2;
    return (Math.abs(x) < 1e-9 ? 1 : Math.sin(x) / x) * window;
  });
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}
