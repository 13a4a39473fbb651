"""Decoders and logs by the fields that a test sets."""

from connectors.events.decoding import EventFormat
from connectors.files.log import ReplayLog


def decoder_of(form, target=None, **more):
    return EventFormat(target, **more).decoder(form)


def log_of(files, target="y", form=None, strict=False, **more):
    return ReplayLog(files, EventFormat(target, **more), form, strict)
