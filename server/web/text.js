// Every word the page says, in English and Japanese. Knows no element: app.js puts words where `data-t` names them.

import { REASONS } from "./reasons.js";

const TEXTS = {
  "new": ["New chat", "新しい会話"],
  "log": ["Conversation", "会話"],
  "line": ["Your words", "あなたの言葉"],
  "line.hint": ["Say something …", "話しかけてください…"],
  "send": ["Send", "送る"],
  "record": ["Hold to talk", "押して話す"],
  "record.stop": ["Let go or press to send", "はなすか押すと送信"],
  "record.hint": ["Hold the button or the space key while you speak, or press once to begin and once more to end. Escape, or a click on the robot, makes it quiet.", "ボタンかスペースキーを押しながら話すか、1回押して話し、もう1回押して終わります。Esc キーかロボットのクリックで、話をやめさせられます。"],
  "open": ["Open microphone", "マイクを開けておく"],
  "mute.microphone": ["Mute the microphone", "マイクをミュート"],
  "mute.microphone.pressed": ["Microphone is muted · turn it on", "マイクはミュート中 · 解除する"],
  "stop": ["Be quiet", "静かに"],
  "volume": ["Volume", "音量"],
  "mute": ["Mute", "消音"],
  "mute.pressed": ["Muted", "消音中"],
  "recent": ["Where the time went, the last turns", "時間の内訳（最近の会話）"],
  "interrupted": ["interrupted", "途中まで"],
  "unheard": ["(stopped before a word was heard)", "（話し始める前に止まりました）"],
  "file": ["Audio file", "音声ファイル"],
  "cancel": ["Cancel", "やめる"],
  "replay": ["Hear it again", "もう一度聞く"],
  "voice": ["(your voice)", "（あなたの声）"],
  "server.connecting": ["Connecting …", "接続中…"],
  "server.starting": ["The server is starting: it loads its models …", "サーバーを起動しています（モデルの読み込み中）…"],
  "server.ready": ["Ready", "準備完了"],
  "server.failed": ["The server could not start.", "サーバーを起動できませんでした。"],
  "server.unreachable": ["The server does not answer.", "サーバーから応答がありません。"],
  "server.lost": ["The link is lost. Next try in {seconds} s.", "接続が切れました。{seconds} 秒後にもう一度つなぎます。"],
  "server.replaced": ["This robot is now used in another tab or window.", "別のタブかウィンドウでこのロボットを使っています。"],
  "server.refused": ["The token is missing or wrong.", "トークンがないか、正しくありません。"],
  "server.broken": ["The link was ended. Load the page again.", "接続が終わりました。ページを読み込み直してください。"],
  "again.waiting": ["Try now", "今すぐつなぐ"],
  "again.replaced": ["Use it here", "ここで使う"],
  "again.refused": ["Give the token", "トークンを入れる"],
  "state.speaking": ["Speaking …", "話しています…"],
  "state.listening": ["Listening …", "聞いています…"],
  "state.thinking": ["Thinking …", "考えています…"],
  "state.muted": ["The microphone is muted: I hear nothing.", "マイクがミュート中です（聞こえていません）"],
  "elapsed": ["{seconds} s", "{seconds} 秒"],
  "face": ["StackChan's face: {emotion}", "スタックチャンの顔：{emotion}"],
  "token.title": ["The owner's token", "持ち主のトークン"],
  "token.where": ["Easiest: open the page's address that the server's terminal shows now; it is a new one with each start. Or give the owner's token: the terminal showed it at the very first start. If it is lost, run “stackchan token reset” on the server's machine: it shows a new one and ends the old one. It stays in this tab only.", "サーバーの端末に今表示されているページのアドレスを開くのが簡単です（起動のたびに変わります）。または、持ち主のトークンを入れてください。サーバーを初めて起動したときに、端末に表示されています。分からなくなったら、サーバーのマシンで stackchan token reset を実行してください。新しいトークンが表示され、古いものは使えなくなります。トークンはこのタブの中だけに保存されます。"],
  "token.label": ["Token", "トークン"],
  "token.ok": ["Use this token", "このトークンを使う"],
  "latency": ["first sound {first} s · all {total} s", "最初の音 {first} 秒 · 全体 {total} 秒"],
  "latency.silent": ["all {total} s", "全体 {total} 秒"],
  "latency.wait": ["waiting for your end {s} s", "話の終わり待ち {s} 秒"],
  "latency.hear": ["hearing {s} s", "聞き取り {s} 秒"],
  "latency.think": ["thinking {s} s", "考え中 {s} 秒"],
  "latency.voice": ["first voice {s} s", "最初の声 {s} 秒"],
  "latency.rest": ["rest of the answer {s} s", "残りの返事 {s} 秒"],
  "trace": ["Where the time went", "時間の内訳"],
  "trace.none": ["This turn has no times.", "この会話の時間は記録されていません。"],
  "trace.silence": ["is it over?", "話の終わり待ち"],
  "trace.receive": ["taking in", "受け取り"],
  "trace.queued": ["waiting", "順番待ち"],
  "trace.vad": ["finding speech", "声を探す"],
  "trace.asr": ["hearing", "聞き取り"],
  "trace.llm": ["thinking", "考え中"],
  "trace.tool": ["looking up", "調べもの"],
  "trace.filler": ["let me think", "つなぎの言葉"],
  "trace.tts": ["speaking", "声を作る"],
  "trace.endpoint": ["speech is over", "話の終わり"],
  "trace.words_stored": ["words stored", "言葉を保存"],
  "trace.first_token": ["first token", "最初の語"],
  "trace.first_clause": ["first clause", "最初の句"],
  "trace.first_audio": ["first sound", "最初の音"],
  "trace.tokens": ["model calls: {calls} · tokens read: {read} (from the cache: {cached}) · written: {written}", "モデルの呼び出し {calls} 回 · 読んだトークン {read}（うちキャッシュ {cached}）· 書いたトークン {written}"],
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
  "error.token_invalid": ["The server does not know this token. The one in the terminal's link ends with that server.", "このトークンはサーバーに登録されていません。端末のリンクにあるトークンは、そのサーバーを終えると使えなくなります。"],
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
  "error.mic_insecure": ["The browser gives no microphone to this address: only to https, or on the server's own machine. Start the server with --tls and open https, or choose an audio file, or type.", "このアドレスではブラウザーがマイクを使わせません（https か、サーバーと同じマシンでだけ使えます）。サーバーを --tls を付けて起動し、https で開いてください。音声ファイルを選ぶか、文字で入力することもできます。"],
  "error.mic_muted": ["The microphone is muted here. Press “Microphone is muted” to turn it on, then speak.", "このページでマイクがミュートになっています。「マイクはミュート中」を押して解除してから話してください。"],
  "error.mic_busy": ["Another program uses the microphone. Close it and try again.", "マイクをほかのアプリが使っています。閉じてから、もう一度どうぞ。"],
  "error.mic_lost": ["The microphone was unplugged or turned off. Plug it in and press again.", "マイクが外れたか、切られました。つなぎ直して、もう一度押してください。"],
  "error.mic_silent": ["The microphone is open but hears nothing at all. Is it muted, on itself or in the system's settings?", "マイクは開いていますが、音がまったく入りません。マイク本体やシステムの設定でミュートになっていませんか。"],
  "error.sound_locked": ["The robot speaks, but the browser lets this page make no sound yet. Click anywhere on the page.", "ロボットが話していますが、ブラウザーがまだ音を出させません。ページのどこかをクリックしてください。"],
  "error.link_lost": ["There is no link to the robot at the moment. Wait until it is back, or type.", "今はロボットとつながっていません。つながるまで待つか、文字で入力してください。"],
  "error.replaced": ["This robot is used in another tab or window. Press “Use it here” first.", "別のタブかウィンドウでこのロボットを使っています。先に「ここで使う」を押してください。"],
  "error.refused": ["The robot is not connected: the token is missing or wrong. Press “Give the token” first.", "ロボットとつながっていません（トークンがないか、正しくありません）。先に「トークンを入れる」を押してください。"],
  "error.audio_too_fast": ["The sound was held up on its way, and the link was made anew. Say it again.", "音声が途中で滞ったため、つなぎ直しました。もう一度話してください。"],
  "error.broken": ["The server ended the link. Load the page again.", "サーバーが接続を終えました。ページを読み込み直してください。"],
  "error.protocol_unsupported": ["The server is of another version than this page. Load the page again.", "サーバーとこのページの版が違います。ページを読み込み直してください。"],
  "error.vad_failed": ["The robot cannot hear at the moment. Type, or try again in a while.", "今は声を聞き取れません。文字で入力するか、しばらくしてからもう一度どうぞ。"],
  "error.device_forbidden": ["This token belongs to another device. Use the owner's token.", "これは別のデバイスのトークンです。持ち主のトークンを使ってください。"],
  "error.device_revoked": ["This device's token was withdrawn. Use the owner's token.", "このデバイスのトークンは取り消されました。持ち主のトークンを使ってください。"],
  "error.unreachable": ["The server does not answer. Is it still running?", "サーバーから応答がありません。起動しているか確かめてください。"],
};

const COLUMN = { en: 0, ja: 1 };
const STEPS = new Map();
let language = "en";

export const setLanguage = (id) => (language = Object.hasOwn(COLUMN, id) ? id : "en");
export const getLanguage = () => language;

// What the server says is to be done after each of its errors: {code: [English, Japanese]}.
export function learnSteps(steps) {
  for (const [code, words] of Object.entries(steps)) {
    STEPS.set(code, words);
    TEXTS[`step.${code}`] = ["{message} {hint}", `${REASONS[code] ?? "うまくいきませんでした。"}${words[1]}（{code}）`];
  }
}
export const stepOf = (code) => STEPS.get(code);
export const knowsSteps = () => STEPS.size > 0;

export const hasText = (key) => Object.hasOwn(TEXTS, key);

// The words for `key` in the page's language, with {names} filled in; the key's last part when there are none.
export function text(key, values = {}) {
  const words = hasText(key) ? TEXTS[key][COLUMN[language]] : key.split(".").at(-1);
  return words.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
