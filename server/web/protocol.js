// The native protocol's messages (firmware/PROTOCOL.md): what this device sends, and the server's, read with care.
// Pure; knows no socket.

export const PROTOCOL = 1;
// Of the microphone.
export const WIRE_RATE_HZ = 16000;
export const FRAME_MS = 20;
// Of the voice: the rate that the server makes it at. It sends five frames ahead, and 300 ms are enough for a page that is
// busy for a moment.
export const VOICE_RATE_HZ = 24000;
const VOICE_FRAME_MS = 60;

export const hello = ({ deviceId, sessionId, token, echoCancel }) => ({
  type: "hello",
  protocol: PROTOCOL,
  device_id: deviceId,
  firmware: "web",
  audio: { format: "pcm16", sample_rate: WIRE_RATE_HZ, frame_ms: FRAME_MS },
  voice: { format: "pcm16", sample_rate: VOICE_RATE_HZ, frame_ms: VOICE_FRAME_MS },
  capabilities: { echo_cancel: echoCancel, levels: true, emotions: true, actions: true, commands: ["volume", "mute"] },
  ...(sessionId && { session_id: sessionId }),
  ...(token && { token }),
});
export const listenStart = (mode) => ({ type: "listen", state: "start", mode });
export const listenStop = () => ({ type: "listen", state: "stop" });
export const abort = (reason) => ({ type: "abort", reason });
export const played = (turnId, ms) => ({ type: "played", turn_id: turnId, ms: Math.max(0, Math.round(ms)) });
export const ping = () => ({ type: "ping" });
export const result = (id, ok, value) => ({ type: "result", id, ok, ...(value !== undefined && { value }) });

export const CLOSE = { policy: 1008, tooLarge: 1009, later: 1013, replaced: 4000 };

const isText = (value) => typeof value === "string";
const isCount = (value) => Number.isInteger(value) && value >= 0;
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isLevels = (values) => Array.isArray(values) && values.every((value) => value >= 0 && value <= 1);
const STATES = ["idle", "listening", "thinking", "speaking", "error"];

const READERS = {
  hello: (m) => isText(m.session_id) && isObject(m.audio) && m.audio.format === "pcm16" && m.audio.sample_rate >= 8000 && m.audio.sample_rate <= 48000,
  state: (m) => STATES.includes(m.value),
  transcript: (m) => isText(m.text),
  face: (m) => isText(m.emotion),
  action: (m) => isText(m.id),
  levels: (m) => isCount(m.turn_id) && isCount(m.start_ms) && m.step_ms > 0 && isLevels(m.values),
  speech: (m) => isCount(m.turn_id) && (["start", "stop"].includes(m.state) || (m.state === "sentence" && isText(m.text))),
  turn: (m) => isCount(m.turn_id) && isText(m.reply ?? ""),
  error: (m) => isText(m.code) && isText(m.message ?? ""),
  pong: () => true,
  command: (m) => isCount(m.id) && isText(m.name),
};

// A text frame -> its message; null: nothing this page understands, to be passed over.
export function read(text) {
  let message;
  try {
    message = JSON.parse(text);
  } catch {
    return null;
  }
  return isObject(message) && Object.hasOwn(READERS, message.type) && READERS[message.type](message) ? message : null;
}

// A binary frame -> Float32Array of samples.
export function readSound(buffer) {
  const view = new DataView(buffer, 0, buffer.byteLength & ~1);
  return Float32Array.from({ length: view.byteLength / 2 }, (_, index) => view.getInt16(2 * index, true) / 32768);
}
