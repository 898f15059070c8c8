"""One call to a CS3 service, by the stubs that CS3 itself publishes for Python.

    python cs3_client.py < CALL.json

The call: {"target": "unix:/run/cs3.sock", "service": "user" | "tenant" | "group", "call": "GetUser", "request": {...},
"metadata": {"x-access-token": "..."}, "authority": "PEM, for TLS"}. It prints {"grpc": "OK", "details": "", "code": "CODE_OK", "answer": {...}}:
gRPC's status, the code of CS3's status where there is an answer, and the answer. Names are as in the .proto files; what is empty is left out.
"""

import importlib
import json
import sys

import grpc
from google.protobuf import json_format

call = json.load(sys.stdin)
package = f"cs3.identity.{call['service']}.v1beta1.{call['service']}_api"
messages = importlib.import_module(package + "_pb2")
stubs = importlib.import_module(package + "_pb2_grpc")

request = json_format.ParseDict(call["request"], getattr(messages, call["call"] + "Request")())
if call.get("authority"):
    channel = grpc.secure_channel(call["target"], grpc.ssl_channel_credentials(call["authority"].encode()))
else:
    # At a socket gRPC's C core would take the path for the name of the server (`:authority`), which is none (RFC 3986, 3.2) and refused.
    own = [("grpc.default_authority", "localhost")] if call["target"].startswith("unix:") else []
    channel = grpc.insecure_channel(call["target"], options=own)
with channel:
    stub = getattr(stubs, call["service"].capitalize() + "APIStub")(channel)
    try:
        answer = getattr(stub, call["call"])(request, metadata=list(call.get("metadata", {}).items()), timeout=60)
    except grpc.RpcError as error:
        print(json.dumps({"grpc": error.code().name, "details": error.details()}))
    else:
        said = json_format.MessageToDict(answer, preserving_proto_field_name=True)
        print(json.dumps({"grpc": "OK", "details": "", "code": said.get("status", {}).get("code", "CODE_INVALID"), "answer": said}))
