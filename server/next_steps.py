"""What to do next, for every error code, in English and Japanese: told where an error brings no hint of its own.

Words for people. Which error has which code is in `errors.py` and beside what raises it; a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_LOG = ("The server's log says more.", "サーバーのログを見てください。")
_AGAIN = ("Try again in a moment.", "少し待ってからもう一度どうぞ。")
_DOCTOR = ("Run `stackchan doctor`: it says what is wrong.", "`stackchan doctor` で原因を調べてください。")
_SPACE = ("Make room on the disk, then try again.", "ディスクの空きを増やして、もう一度どうぞ。")
_FOLDER = (
    "Check the disk, and who may write to the data folder.",
    "ディスクとデータフォルダーの権限を確かめてください。",
)
_NAMED = ("Correct what the message names.", "メッセージにある箇所を直してください。")
_EXPORT_ANEW = (
    "Nothing was imported. Export again, or correct that line.",
    "何も取り込んでいません。書き出し直すか、その行を直してください。",
)
_OTHER_BACKUP = (
    "Nothing was changed. Give another backup.",
    "何も変えていません。別のバックアップを指定してください。",
)
_REBUILD = (
    "Words still find. Run `stackchan memory rebuild`.",
    "言葉では探せます。`stackchan memory rebuild` で直せます。",
)
_WORDS_FIND = ("Words still find. Try again in a moment.", "言葉では探せます。少し待ってからもう一度どうぞ。")
_PULL = ("Run `stackchan models pull`.", "`stackchan models pull` で取得してください。")
_ENDPOINT = ("Check the llm settings; see docs/endpoints.md.", "llm の設定を確かめてください（docs/endpoints.md）。")
_HEARING = (
    "Is the hearing server running? Check the asr settings; `stackchan doctor` asks it.",
    "音声認識サーバーと asr の設定を確かめてください。`stackchan doctor` で調べられます。",
)
_VOICE = (
    "Is the voice's server running? Check the tts settings; `stackchan doctor` asks it.",
    "音声合成サーバーと tts の設定を確かめてください。`stackchan doctor` で調べられます。",
)
_OWNERS_TOKEN = ("Use the owner's token.", "持ち主のトークンを使ってください。")
_TOKEN = (
    "Send the owner's token (shown at the first start); `stackchan token reset` makes a new one.",
    "持ち主のトークン（初回の起動で表示）を使ってください。`stackchan token reset` で作り直せます。",
)
_SHORTER = ("Send less at once.", "短くして送ってください。")
_NEXT_TURN = ("Say it again.", "もう一度話しかけてください。")
_PROTOCOL = ("See firmware/PROTOCOL.md for what is expected.", "firmware/PROTOCOL.md を見てください。")
_OTHER_PORT = ("Choose another port with --port.", "--port で別のポートを選んでください。")

NEXT_STEPS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        # The server as a whole
        "internal": _LOG,
        "http_error": ("Look at /docs for what this server takes.", "/docs で使い方を確かめてください。"),
        "not_found": ("Check the path; /docs lists them all.", "パスを確かめてください。/docs に一覧があります。"),
        "method_not_allowed": ("Use one of the methods in Allow.", "Allow にあるメソッドを使ってください。"),
        "gone": ("It is not kept any more; nothing has to be done.", "もう残っていません。"),
        "starting": ("The models are loading. Try again in a moment.", "起動中です。少し待ってからもう一度どうぞ。"),
        "start_failed": _DOCTOR,
        "stopping": ("The server goes down. Try again in a minute.", "停止中です。1分ほどしてからもう一度どうぞ。"),
        "server_stopped": ("Say it again; what was said is kept.", "もう一度話しかけてください。発言は残っています。"),
        "overloaded": _AGAIN,
        "config_invalid": _NAMED,
        "config_unknown_key": _NAMED,
        "persona_invalid": _NAMED,
        # Who may what
        "token_missing": _TOKEN,
        "token_invalid": _TOKEN,
        "token_set_by_hand": (
            "Change it where it is set (STACKCHAN_TOKEN or stackchan.toml), and start again.",
            "設定した場所（STACKCHAN_TOKEN か stackchan.toml）で変えて、起動し直してください。",
        ),
        "device_forbidden": _OWNERS_TOKEN,
        "device_revoked": (
            "This device was shut out. Use another Device-Id, or the owner's token.",
            "このデバイスは止められています。別の Device-Id か持ち主のトークンを使ってください。",
        ),
        "origin_forbidden": (
            "Open the page at the server's own address.",
            "サーバー自身のアドレスでページを開いてください。",
        ),
        # Requests
        "request_invalid": ("Correct the request; see /docs.", "リクエストを直してください（/docs）。"),
        "device_id_missing": ("Send the header Device-Id.", "Device-Id ヘッダーを送ってください。"),
        "device_id_invalid": (
            "Choose another name for this device, like desk-1.",
            "デバイスの名前を desk-1 のように変えてください。",
        ),
        "session_id_invalid": (
            "Send another Session-Id, or none.",
            "別の Session-Id にするか、送らないでください。",
        ),
        "session_not_found": (
            "Send the session_id of an answer to this device.",
            "このデバイスへの返事にある session_id を送ってください。",
        ),
        "idempotency_key_invalid": ("Send a random text of 1 to 255 characters.", "1〜255文字の乱数を送ってください。"),
        "idempotency_key_reused": (
            "Use a new key for a new request.",
            "新しいリクエストには新しいキーを使ってください。",
        ),
        "idempotency_in_progress": _AGAIN,
        "body_invalid": _NAMED,
        "body_incomplete": ("Send all of it again.", "全体をもう一度送ってください。"),
        "body_timeout": ("Send it again, without pauses.", "途切れないように、もう一度送ってください。"),
        "body_too_large": _SHORTER,
        "body_unsupported": (
            "Send it as JSON or as a recording, without Content-Encoding.",
            "JSON か録音を、Content-Encoding なしで送ってください。",
        ),
        "text_empty": ("Send some words.", "言葉を入れて送ってください。"),
        "text_too_long": _SHORTER,
        "audio_empty": ("Record it again; nothing was in it.", "録音し直してください。中身がありません。"),
        "audio_invalid": ("Record or convert it again.", "録音か変換をやり直してください。"),
        "audio_unsupported": (
            "Send WAV, FLAC, Ogg or MP3, or 16-bit PCM.",
            "WAV・FLAC・Ogg・MP3・16ビット PCM のどれかで送ってください。",
        ),
        "audio_too_long": _SHORTER,
        "audio_too_large": _SHORTER,
        "audio_pending": _AGAIN,
        "audio_expired": (
            "The words are still in the turn; ask again to hear it.",
            "言葉はまだ読めます。声はもう一度聞いてください。",
        ),
        "audio_not_found": ("Read the turn's reply instead.", "返事の文字を読んでください。"),
        "turn_not_found": (
            "Give the turn_id of an answer to this device.",
            "このデバイスへの返事にある turn_id を指定してください。",
        ),
        "device_gone": ("Wait until the device is connected again.", "デバイスがつながるのを待ってください。"),
        "device_silent": _AGAIN,
        "command_refused": ("This device cannot do that.", "このデバイスではできません。"),
        "device_busy": (
            "Wait until this device's last turn is over.",
            "前の返事が終わるまで待ってください。",
        ),
        # A connected device
        "hello_expected": _PROTOCOL,
        "hello_repeated": _PROTOCOL,
        "protocol_unsupported": (
            "Bring device and server to the same version.",
            "デバイスとサーバーの版をそろえてください。",
        ),
        "json_invalid": _PROTOCOL,
        "field_missing": _PROTOCOL,
        "field_invalid": _PROTOCOL,
        "message_too_large": _SHORTER,
        "audio_too_fast": ("Send sound as fast as it is heard.", "音は再生と同じ速さで送ってください。"),
        "too_many_bad_messages": _PROTOCOL,
        # Models and engines
        "model_missing": _PULL,
        "model_unknown": (
            "`stackchan models list` shows the names.",
            "`stackchan models list` で名前を確かめてください。",
        ),
        "model_download_failed": (
            "Check the network, and pull again: it goes on where it stopped.",
            "ネットワークを確かめて、もう一度取得してください。途中から続きます。",
        ),
        "model_hash_mismatch": _PULL,
        "model_disk_full": _SPACE,
        "engine_unknown": _NAMED,
        "engine_unavailable": _DOCTOR,
        "engine_failed": _LOG,
        "vad_failed": _LOG,
        "vad_timeout": _NEXT_TURN,
        "asr_failed": _LOG,
        "asr_timeout": _NEXT_TURN,
        "asr_unreachable": _HEARING,
        "asr_rate_limited": _AGAIN,
        "asr_overloaded": _AGAIN,
        "asr_cut": _NEXT_TURN,
        "asr_unauthorized": ("Check the key in asr.api_key.", "asr.api_key のキーを確かめてください。"),
        "asr_refused": _HEARING,
        "llm_failed": _LOG,
        "llm_timeout": _NEXT_TURN,
        "llm_context_overflow": ("Begin another conversation.", "新しい会話を始めてください。"),
        "llm_no_reply": _NEXT_TURN,
        "llm_unreachable": (
            "Is the model's server running? Check llm.base_url.",
            "モデルのサーバーと llm.base_url を確かめてください。",
        ),
        "llm_rate_limited": _AGAIN,
        "llm_overloaded": _AGAIN,
        "llm_cut": _NEXT_TURN,
        "llm_unauthorized": ("Check the key in llm.api_key.", "llm.api_key のキーを確かめてください。"),
        "llm_refused": _ENDPOINT,
        "tts_failed": _LOG,
        "tts_timeout": _NEXT_TURN,
        "tts_unreachable": _VOICE,
        "tts_rate_limited": _AGAIN,
        "tts_overloaded": _AGAIN,
        "tts_cut": _NEXT_TURN,
        "tts_unauthorized": ("Check the key in tts.api_key.", "tts.api_key のキーを確かめてください。"),
        "tts_refused": _VOICE,
        "embedding_failed": ("Words still find. The server's log says more.", "言葉では探せます。ログを見てください。"),
        "rerank_failed": (
            "Searches go on without it. The server's log says more.",
            "なくても探せます。ログを見てください。",
        ),
        # What is kept
        "storage_failed": _FOLDER,
        "storage_full": _SPACE,
        "storage_newer": (
            "Use the version that wrote it, or a newer one.",
            "書いた版か、より新しい版を使ってください。",
        ),
        "data_in_use": ("Stop the server that uses it first.", "先に、使っているサーバーを止めてください。"),
        "backup_foreign": (
            "Nothing was changed. Give what `stackchan backup` wrote.",
            "何も変えていません。`stackchan backup` で作ったファイルを指定してください。",
        ),
        "backup_damaged": _OTHER_BACKUP,
        "backup_of_another_house": (
            "Nothing was changed. Restore it into an empty folder, with --data-dir.",
            "何も変えていません。--data-dir で空のフォルダーに戻してください。",
        ),
        "memory_off": (
            "Set memory.enabled to true, and start the server again.",
            "memory.enabled を true にして、起動し直してください。",
        ),
        "memory_missing": ("Talk to the robot first.", "先にロボットと話してください。"),
        "memory_not_found": (
            "Search for it: `stackchan memory search`.",
            "`stackchan memory search` で探してください。",
        ),
        "memory_forgotten": (
            "Nothing has to be done: it was forgotten on request.",
            "何もする必要はありません。頼まれて忘れました。",
        ),
        "arguments_invalid": _NAMED,
        "after_unknown": ("Begin with the first page again.", "最初のページからやり直してください。"),
        "rebuild_running": ("Wait until it is over.", "終わるまで待ってください。"),
        "rebuild_failed": ("Run `stackchan memory rebuild` again.", "`stackchan memory rebuild` をもう一度どうぞ。"),
        "export_truncated": ("Export again.", "もう一度書き出してください。"),
        "import_format": (
            "Give what `stackchan memory export` wrote.",
            "`stackchan memory export` で作ったファイルを指定してください。",
        ),
        "import_version": (
            "Use the version that wrote it, or a newer one.",
            "書いた版か、より新しい版を使ってください。",
        ),
        "import_line_invalid": _EXPORT_ANEW,
        "import_line_too_long": _EXPORT_ANEW,
        "import_too_large": _EXPORT_ANEW,
        "import_truncated": _EXPORT_ANEW,
        "import_duplicate": _EXPORT_ANEW,
        # Vectors
        "index_failed": _REBUILD,
        "index_invalid": _REBUILD,
        "index_closed": _WORDS_FIND,
        "index_busy": _WORDS_FIND,
        "index_locked": (
            "Words still find. Stop the other process that has it.",
            "言葉では探せます。使っている別のプロセスを止めてください。",
        ),
        "index_mismatch": _REBUILD,
        "index_damaged": _REBUILD,
        "index_unavailable": (
            "Words still find. Check the Qdrant server of memory.index_url; with edge, make room on the disk.",
            "言葉では探せます。memory.index_url の Qdrant サーバーを確かめ、edge ならディスクを空けてください。",
        ),
        "index_foreign": (
            "Choose another folder or collection, or move what is there away.",
            "別の場所を選ぶか、そこにあるものを移してください。",
        ),
        "index_unauthorized": ("Check memory.index_api_key.", "memory.index_api_key を確かめてください。"),
        # The command line
        "usage": ("`--help` shows how.", "`--help` で使い方を見てください。"),
        "refused": ("Correct what the message names.", "メッセージにある箇所を直してください。"),
        "server_not_running": ("Start it: `stackchan serve`.", "`stackchan serve` で起動してください。"),
        "server_timeout": _DOCTOR,
        "server_broke_off": _LOG,
        "connection_lost": (
            "Is the server still running? Then try again.",
            "サーバーの動作を確かめて、もう一度どうぞ。",
        ),
        "answer_invalid": ("Give the right address with --url.", "--url で正しいアドレスを指定してください。"),
        "not_confirmed": ("Say so with --yes.", "--yes を付けてください。"),
        "file_exists": (
            "Choose another name, or replace it with --force.",
            "別の名前にするか、--force で置き換えてください。",
        ),
        "out_unwritable": _SPACE,
        "output_failed": _SPACE,
        "host_invalid": (
            "Use 127.0.0.1, or --lan for the robot's network.",
            "127.0.0.1 か、--lan を使ってください。",
        ),
        "port_in_use": _OTHER_PORT,
        "port_forbidden": _OTHER_PORT,
        "sound_unavailable": (
            "Type instead, or save the sound with --out.",
            "文字で入力するか、--out で音を保存してください。",
        ),
        "no_systemd": ("Start it by hand: `stackchan serve`.", "`stackchan serve` で起動してください。"),
        "service_failed": ("`stackchan service status` says more.", "`stackchan service status` を見てください。"),
    }
)


def next_step(code: str) -> str | None:
    """What to do after an error of this code, in both languages; None for a code that is not ours."""
    step = NEXT_STEPS.get(code)
    return None if step is None else f"{step[0]} / {step[1]}"
