"""DeepL's API, version 2: ``POST /v2/translate``.

Sources: https://developers.deepl.com/docs/api-reference/translate (request and response),
https://developers.deepl.com/docs/best-practices/error-handling (429, 456 and 500; errors are ``{"message": …}``),
https://developers.deepl.com/docs/getting-started/auth (403 for a wrong key).
"""

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "d33pl-s3cret:fx"
QUOTA = Answer({"message": "Quota Exceeded"}, 456)


def handle(call: Call) -> Answer:
    if (call.method, call.path) != ("POST", "/v2/translate"):
        return Answer({"message": "Not found"}, 404)
    if call.headers.get("authorization") != f"DeepL-Auth-Key {KEY}":
        return Answer({"message": "Authorization failed. Please check that your authentication key is valid."}, 403)
    texts = call.json["text"]
    if "quota" in texts:
        return QUOTA
    words = {"你好": "Hello"}
    translated = [{"detected_source_language": "ZH", "text": words.get(text, f"<{text}>")} for text in texts]
    return Answer({"translations": [] if "nothing" in texts else translated})


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer({"message": "Too many requests"}, 429, {"retry-after": "1"}))
