// Every word the page says, in English and Japanese. Knows no element: app.js puts words where `data-t` names them.

const TEXTS = {
  "new": ["New chat", "新しい会話"],
  "log": ["Conversation", "会話"],
  "line": ["Your words", "あなたの言葉"],
  "line.hint": ["Say something …", "話しかけてください…"],
  "send": ["Send", "送る"],
  "record": ["Hold to talk", "押して話す"],
  "record.stop": ["Let go or press to send", "はなすか押すと送信"],
  "record.hint": ["Hold the button while you speak, or press once to begin and once more to end.", "ボタンを押しながら話すか、1回押して話し、もう1回押して終わります。"],
  "file": ["Audio file", "音声ファイル"],
  "cancel": ["Cancel", "やめる"],
  "replay": ["Hear it again", "もう一度聞く"],
  "voice": ["(your voice)", "（あなたの声）"],
  "server.connecting": ["Connecting …", "接続中…"],
  "server.starting": ["The server is starting: it loads its models …", "サーバーを起動しています（モデルの読み込み中）…"],
  "server.ready": ["Ready", "準備完了"],
  "server.failed": ["The server could not start.", "サーバーを起動できませんでした。"],
  "server.unreachable": ["The server does not answer.", "サーバーから応答がありません。"],
  "state.listening": ["Listening …", "聞いています…"],
  "state.thinking": ["Thinking …", "考えています…"],
  "face": ["StackChan's face: {emotion}", "スタックチャンの顔：{emotion}"],
  "token.title": ["The owner's token", "持ち主のトークン"],
  "token.where": ["The server showed it in its terminal when it started for the first time. If it is lost, set one of your own in STACKCHAN_TOKEN and start the server again. It stays in this tab only.", "サーバーを初めて起動したときに、端末に表示されています。分からなくなったら、環境変数 STACKCHAN_TOKEN に自分で決めたトークンを設定して、サーバーを起動し直してください。トークンはこのタブの中だけに保存されます。"],
  "token.label": ["Token", "トークン"],
  "token.ok": ["Use this token", "このトークンを使う"],
  "latency": ["first sound {first} s · all {total} s", "最初の音 {first} 秒 · 全体 {total} 秒"],
  "latency.silent": ["all {total} s", "全体 {total} 秒"],
  "latency.hear": ["hearing {s} s", "聞き取り {s} 秒"],
  "latency.think": ["thinking {s} s", "考え中 {s} 秒"],
  "latency.voice": ["first voice {s} s", "最初の声 {s} 秒"],
  "latency.rest": ["rest of the answer {s} s", "残りの返事 {s} 秒"],
  "emotion.neutral": ["neutral", "ふつう"],
  "emotion.happy": ["happy", "うれしい"],
  "emotion.sad": ["sad", "かなしい"],
  "emotion.angry": ["angry", "おこっている"],
  "emotion.doubt": ["doubtful", "うたがっている"],
  "emotion.sleepy": ["sleepy", "ねむい"],
  "emotion.surprised": ["surprised", "びっくり"],
  "action.nod": ["nods", "うなずく"],
  "action.shake": ["shakes its head", "首をふる"],
  "action.look_left": ["looks to its left", "（自分の）左を見る"],
  "action.look_right": ["looks to its right", "（自分の）右を見る"],
  "action.look_up": ["looks up", "上を見る"],
  "action.look_down": ["looks down", "下を見る"],
  "action.tilt": ["tilts its head", "首をかしげる"],
  "action.dance": ["dances", "おどる"],
  "action.sleep": ["sleeps", "ねる"],
  "error.token_missing": ["This server asks for its owner's token.", "このサーバーを使うには、持ち主のトークンが必要です。"],
  "error.token_invalid": ["The server does not know this token.", "このトークンはサーバーに登録されていません。"],
  "error.device_busy": ["The robot is still busy with your last words. Try again in a moment.", "まだ前の言葉に答えているところです。少し待ってからもう一度どうぞ。"],
  "error.overloaded": ["Too many people talk to this server at once. Try again in a moment.", "サーバーが混み合っています。少し待ってからもう一度どうぞ。"],
  "error.starting": ["The server is still starting. Try again in a moment.", "サーバーは起動中です。少し待ってからもう一度どうぞ。"],
  "error.audio_too_long": ["This recording is too long; one minute is the most.", "録音が長すぎます（1分まで）。"],
  "error.audio_too_large": ["This recording is too large; one minute is the most.", "録音が大きすぎます（1分まで）。"],
  "error.audio_expired": ["This answer's sound is no longer kept.", "この返事の音声は、もう保存されていません。"],
  "error.undecodable": ["The browser cannot read this as audio. Choose a WAV, MP3, FLAC, Ogg or M4A file.", "音声として読み込めませんでした。WAV・MP3・FLAC・Ogg・M4A のファイルを選んでください。"],
  "error.no_speech": ["I heard no words. Speak a little closer or louder.", "言葉が聞き取れませんでした。もう少し近くで、はっきり話してみてください。"],
  "error.no_voice": ["The answer has no sound this time.", "今回の返事には音声がありません。"],
  "error.mic_denied": ["The browser may not use the microphone. Allow it beside the address, or choose an audio file.", "マイクの使用が許可されていません。アドレス欄の横で許可するか、音声ファイルを選んでください。"],
  "error.mic_missing": ["This computer has no microphone that works. Plug one in, choose an audio file, or type.", "使えるマイクが見つかりません。マイクをつなぐか、音声ファイルを選ぶか、文字で入力してください。"],
  "error.mic_insecure": ["The browser gives no microphone to this address: only to https, or on the server's own machine. Choose an audio file, or type.", "このアドレスではブラウザーがマイクを使わせません（https か、サーバーと同じマシンでだけ使えます）。音声ファイルを選ぶか、文字で入力してください。"],
  "error.unreachable": ["The server does not answer. Is it still running?", "サーバーから応答がありません。起動しているか確かめてください。"],
};

const COLUMN = { en: 0, ja: 1 };
let language = "en";

export const setLanguage = (id) => (language = Object.hasOwn(COLUMN, id) ? id : "en");
export const getLanguage = () => language;
export const hasText = (key) => Object.hasOwn(TEXTS, key);

// The words for `key` in the page's language, with {names} filled in; the key's last part when there are none.
export function text(key, values = {}) {
  const words = hasText(key) ? TEXTS[key][COLUMN[language]] : key.split(".").at(-1);
  return words.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
