"""The former name of `clips`."""

from __future__ import annotations

from server.pipeline.clips import VoiceClips as ApologyClips

__all__ = ["ApologyClips"]
