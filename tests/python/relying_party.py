"""A web application on Authlib and Flask: it signs people in at Denizen, renews, asks who they are, and signs them out.

    python relying_party.py CONFIGURATION.json

Its pages answer in JSON, for the tests. What it knows of a visitor is kept here, under a cookie.
"""

import json
import sys
import uuid

from authlib.integrations.base_client import OAuthError
from authlib.integrations.flask_client import OAuth
from flask import Flask, redirect, request, session
from joserfc import jwt
from joserfc.jwk import KeySet
from urllib.parse import urlencode

with open(sys.argv[1], encoding="utf-8") as file:
    settings = json.load(file)

app = Flask(__name__)
app.secret_key = uuid.uuid4().hex
visitors = {}


def renewed(token, refresh_token=None, access_token=None):
    """Authlib renewed an expired token by itself."""
    visitor()["token"] = token


denizen = OAuth(app).register(
    "denizen",
    client_id=settings["clientId"],
    client_secret=settings["clientSecret"],
    server_metadata_url=settings["issuer"] + "/.well-known/openid-configuration",
    client_kwargs={"scope": settings["scope"], "code_challenge_method": "S256"},
    update_token=renewed,
)


def visitor():
    """What is known of whoever asks."""
    return visitors.setdefault(session.setdefault("visitor", uuid.uuid4().hex), {})


@app.get("/login")
def login():
    """Away to Denizen."""
    return denizen.authorize_redirect(settings["redirectUri"], **settings["parameters"])


@app.get("/cb")
def back():
    """And back."""
    token = denizen.authorize_access_token()
    visitor().update(token=token, claims=dict(token["userinfo"]))
    return {"claims": visitor()["claims"]}


@app.get("/me")
def me():
    """Who the visitor is."""
    if "claims" not in visitor():
        return {"signedIn": False}
    return {"signedIn": True, "userinfo": dict(denizen.userinfo(token=visitor()["token"]))}


@app.get("/refresh")
def refresh():
    """The token has run out, as far as Authlib knows."""
    before = dict(visitor()["token"])
    denizen.userinfo(token={**before, "expires_at": 1})
    after = visitor()["token"]
    return {
        "renewed": before["access_token"] != after["access_token"],
        "rotated": before["refresh_token"] != after["refresh_token"],
    }


@app.get("/logout")
def logout():
    """Away to Denizen's sign-out."""
    parameters = {
        "id_token_hint": visitor()["token"]["id_token"],
        "post_logout_redirect_uri": settings["goodbyeUri"],
        "state": "gone",
    }
    del visitor()["claims"]
    return redirect(denizen.load_server_metadata()["end_session_endpoint"] + "?" + urlencode(parameters), 303)


@app.get("/goodbye")
def goodbye():
    """Signed out."""
    return {"goodbye": True, "state": request.args.get("state")}


@app.post("/backchannel")
def told_of_sign_out():
    """Denizen tells of a sign-out (OpenID Connect Back-Channel Logout 1.0, 2.6)."""
    keys = KeySet.import_key_set(denizen.fetch_jwk_set(force=True))
    token = jwt.decode(request.form["logout_token"], keys, algorithms=["ES256"])
    right = {"essential": True, "value": settings["issuer"]}
    jwt.JWTClaimsRegistry(
        iss=right,
        aud={"essential": True, "value": settings["clientId"]},
        iat={"essential": True},
        jti={"essential": True},
        exp={"essential": True},
        events={"essential": True},
    ).validate(token.claims)
    assert token.header["typ"] == "logout+jwt" and "nonce" not in token.claims
    assert "http://schemas.openid.net/event/backchannel-logout" in token.claims["events"]
    name = "sid" if "sid" in token.claims else "sub"
    for one in visitors.values():
        if one.get("claims", {}).get(name) == token.claims[name]:
            del one["claims"]
    return "", 200


@app.errorhandler(OAuthError)
def failed(error):
    """Denizen said no."""
    return {"error": error.error}, 400


app.run("127.0.0.1", settings["port"], threaded=True)
