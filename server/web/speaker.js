// The loudspeaker: pieces of sound played one after another without a gap, and exactly how much has been heard.
// Pieces are scheduled ahead in the audio clock: it works where an AudioWorklet does not (plain http). Knows no server,
// no face and no turn but by the name of its sound.

const JITTER_S = 0.06; // a first piece waits so long, and so does one that came too late
const FADE_S = 0.01;
const TAIL_S = 0.15;
const TICK_MS = 50;

export class Speaker {
  // `onTick()`: several times a second while something plays, and once when it has ended.
  constructor({ onTick }) {
    Object.assign(this, { onTick, context: null, volume: 1, muted: false, sound: null });
  }

  // Call it from a key or pointer event: browsers let a page make sound only after one. `rateHz`: of what will come.
  unlock(rateHz) {
    if (this.context && rateHz && this.context.sampleRate !== rateHz) {
      this.stop();
      this.context.close();
      this.context = null;
    }
    if (!this.context) {
      // A context of the voice's own rate: the browser resamples the whole stream, not each piece.
      this.context = new AudioContext({ sampleRate: rateHz });
      this.output = new GainNode(this.context);
      this.output.connect(this.context.destination);
      this.#setGain();
    }
    this.context.resume();
  }

  // Whether sound can be heard now.
  get isUnlocked() {
    return this.context?.state === "running";
  }

  // Whether it may be made to be heard without asking.
  get mayUnlock() {
    return this.isUnlocked || (navigator.userActivation?.hasBeenActive ?? false);
  }

  setVolume(volume) {
    this.volume = Math.max(0, Math.min(1, volume));
    this.#setGain();
  }

  setMuted(muted) {
    this.muted = muted;
    this.#setGain();
  }

  #setGain() {
    // Squared: ears hear a voice at half of it as about half as loud.
    this.output?.gain.setTargetAtTime(this.muted ? 0 : this.volume ** 2, this.context.currentTime, FADE_S);
  }

  // A new sound called `name` begins; the one before is cut off.
  begin(name) {
    this.stop();
    // pieces: [first frame in the audio clock, frames, first frame of this sound]
    this.sound = { name, pieces: [], sources: new Set(), next: 0, frames: 0, whole: false, gain: null };
    return this.sound;
  }

  get playing() {
    return this.sound?.name ?? null;
  }

  // Queue Float32Array samples, at the context's rate, at the end of the sound that has begun.
  add(samples) {
    const { context, sound } = this;
    if (!sound || !context || !samples.length) return;
    const rate = context.sampleRate;
    if (!sound.gain) (sound.gain = new GainNode(context)).connect(this.output);
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: rate });
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(sound.gain);
    const now = Math.ceil(context.currentTime * rate);
    // Counted in whole frames, so that pieces join exactly.
    const start = sound.next > now ? sound.next : now + Math.round(JITTER_S * rate);
    source.start(start / rate);
    source.onended = () => {
      sound.sources.delete(source);
      if (this.sound === sound && !sound.sources.size) this.onTick();
    };
    sound.sources.add(source);
    sound.pieces.push([start, samples.length, sound.frames]);
    sound.next = start + samples.length;
    sound.frames += samples.length;
    this.ticking ??= setInterval(() => this.#tick(), TICK_MS);
  }

  #tick() {
    if (!this.sound?.sources.size) {
      clearInterval(this.ticking);
      this.ticking = null;
    }
    this.onTick();
  }

  // How much of this sound was queued, in ms.
  get queuedMs() {
    return this.sound && this.context ? (this.sound.frames * 1000) / this.context.sampleRate : 0;
  }

  // How much of it has been heard until now, in ms; not what is still on its way through the hardware.
  get heardMs() {
    const { context, sound } = this;
    if (!sound?.frames || !context) return 0;
    const rate = context.sampleRate;
    if (!sound.sources.size) return (sound.frames * 1000) / rate;
    const late = Number.isFinite(context.outputLatency) ? context.outputLatency : 0;
    const now = (context.currentTime - late) * rate;
    while (sound.pieces.length > 1 && sound.pieces[1][0] <= now) sound.pieces.shift();
    const [start, length, before] = sound.pieces[0];
    return ((before + Math.max(0, Math.min(length, now - start))) * 1000) / rate;
  }

  // Whether everything that was queued has been heard.
  get isDry() {
    return !this.sound?.sources.size;
  }

  // The server says it is over: what is left of the last moment is let out, since it counts without our delay; more
  // than that means silence.
  finish() {
    if (this.sound && !this.isDry && this.queuedMs - this.heardMs > TAIL_S * 1000) this.stop();
  }

  // Silence, now. Returns how much was heard, in ms.
  stop() {
    const { sound, context } = this;
    const heard = this.heardMs;
    this.sound = null;
    if (sound?.sources.size) {
      const end = context.currentTime + 2 * FADE_S;
      sound.gain.gain.setTargetAtTime(0, context.currentTime, FADE_S / 3);
      for (const source of sound.sources) source.stop(end);
    }
    if (sound) this.onTick();
    return heard;
  }
}
