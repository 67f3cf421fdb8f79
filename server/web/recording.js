// A sound file of any kind the browser can decode -> 16 kHz mono WAV. Knows nothing of the server, the face or language.

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
