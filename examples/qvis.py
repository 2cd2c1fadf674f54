#!/usr/bin/env python3
"""Makes a qlog of quiche loadable in qvis: python3 examples/qvis.py server-0.sqlog server-0.qvis.sqlog

qvis (as of October 2025) reads JSON-SEQ with a header of an earlier draft, `qlog_version` and
`qlog_format`, and event names of that draft: `recovery:metrics_updated` for what is now
`quic:recovery_metrics_updated`. Everything else stays as it is.
"""

import json
import sys

SEPARATOR = "\x1e"

RENAMED = {
    "quic:recovery_metrics_updated": "recovery:metrics_updated",
    "quic:recovery_parameters_set": "recovery:parameters_set",
    "quic:congestion_state_updated": "recovery:congestion_state_updated",
    "quic:loss_timer_updated": "recovery:loss_timer_set",
    "quic:packet_lost": "recovery:packet_lost",
    "quic:marked_for_retransmit": "recovery:marked_for_retransmit",
    "quic:stream_data_moved": "transport:data_moved",
}


def name(event):
    """Returns what the earlier draft calls an event."""
    if event in RENAMED:
        return RENAMED[event]
    space, _, kind = event.partition(":")
    return {"quic": "transport", "http3": "http"}.get(space, space) + ":" + kind


def converted(records):
    """Returns the records of a log, of which the first is the header."""
    header, *events = records
    yield {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", **header}
    for event in events:
        yield {**event, "name": name(event["name"])}


def main(log, out):
    with open(log, encoding="utf-8") as file:
        texts = [text.strip() for text in file.read().split(SEPARATOR)]
    records = [json.loads(text) for text in texts if text]
    with open(out, "w", encoding="utf-8") as file:
        for record in converted(records):
            file.write(f"{SEPARATOR}{json.dumps(record)}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: qvis.py LOG.sqlog QVIS.sqlog")
    main(*sys.argv[1:])
