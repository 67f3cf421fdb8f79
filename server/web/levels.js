// A sound that came as a whole: its samples, and how far the mouth is open in each of its steps, as the server reckons
// it for live speech. Knows no page.

const STEP_MS = 40;
const SHUT_DB = -32;
const OPEN_DB = -14;

// Bytes of any format the browser knows. Rejects when they are no audio.
export async function fileLevels(context, bytes) {
  const samples = (await context.decodeAudioData(bytes)).getChannelData(0);
  const step = Math.round((context.sampleRate * STEP_MS) / 1000);
  const levels = Array.from({ length: Math.ceil(samples.length / step) }, (_, index) => {
    const piece = samples.subarray(index * step, (index + 1) * step);
    const rms = Math.sqrt(piece.reduce((sum, sample) => sum + sample * sample, 0) / piece.length);
    return Math.max(0, Math.min(1, (20 * Math.log10(Math.max(rms, 1e-6)) - SHUT_DB) / (OPEN_DB - SHUT_DB)));
  });
  return { samples, levels, stepMs: STEP_MS };
}
