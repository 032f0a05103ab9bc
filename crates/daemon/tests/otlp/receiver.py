"""A collector that takes OTLP over HTTP and reads it with OpenTelemetry's own messages, strictly.

It listens on loopback, at the port that it is given or at a free one, and prints that port. Then it prints a line of JSON for each request.
"""

import base64
import http.server
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def bytes_of_ids(value):
    """OTLP has ids in hexadecimal where JSON of protobuf has base64."""
    if isinstance(value, list):
        return [bytes_of_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, each in value.items():
        if key in IDS:
            raw = bytes.fromhex(each)
            if len(raw) != IDS[key] or not any(raw):
                raise ValueError(f"{key} is {each}")
            each = base64.b64encode(raw).decode()
        found[key] = bytes_of_ids(each)
    return found


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told = {"path": self.path, "key": self.headers["X-Key"]}
        try:
            if self.headers["Content-Type"] != "application/json":
                raise ValueError(self.headers["Content-Type"])
            message = MESSAGES[self.path]()
            json_format.ParseDict(bytes_of_ids(json.loads(body)), message)
            told["body"] = json.loads(body)
            told["parsed"] = json_format.MessageToDict(message)
            status = 200
        except Exception as error:
            told["error"] = repr(error)
            status = 400
        print(json.dumps(told), flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Collector)
print(server.server_port, flush=True)
server.serve_forever()
