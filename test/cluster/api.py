"""The API server without a kubectl process for each question."""
import http.client
import json
import ssl

from cluster import Mismatch


class Api:
    """The API server without a kubectl process for each question: (status, body)."""

    def __init__(self, directory):
        self.context = ssl.create_default_context(cafile=str(directory / "certs/apiserver.crt"))
        self.context.check_hostname = False  # the certificate itself is pinned
        self.port = int((directory / "apiserver.port").read_text())
        self.token = (directory / "tokens.csv").read_text().split(",")[0]

    def call(self, method, path, body=None, content="application/json"):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=20)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Authorization": "Bearer " + self.token, "Content-Type": content})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.startswith(b"{") else {"message": text.decode()}

    def must(self, method, path, body=None, content="application/json"):
        status, answer = self.call(method, path, body, content)
        if status >= 300:
            raise Mismatch(f"{method} {path}: {status} {answer.get('message')}")
        return answer

    def merge(self, path, patch):
        return self.must("PATCH", path, patch, "application/merge-patch+json")

    def get(self, path):
        """None when it is not there."""
        status, answer = self.call("GET", path)
        if status == 404:
            return None
        if status >= 300:
            raise Mismatch(f"GET {path}: {status} {answer.get('message')}")
        return answer


class PersistentApi(Api):
    """One connection for many requests; not for several threads."""

    def __init__(self, directory):
        super().__init__(directory)
        self.connection = None

    def call(self, method, path, body=None, content="application/json"):
        for attempt in (1, 2):
            self.connection = self.connection or http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context,
                                                                             timeout=60)
            try:
                self.connection.request(method, path, None if body is None else json.dumps(body),
                                        {"Authorization": "Bearer " + self.token, "Content-Type": content})
                answer = self.connection.getresponse()
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else {"message": text.decode()}
            except (http.client.HTTPException, OSError) as error:
                self.connection.close()
                self.connection = None
                if attempt == 2 or method == "POST":
                    raise OSError(str(error)) from error

    def watch(self, path):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=3600)
        connection.request("GET", path, headers={"Authorization": "Bearer " + self.token})
        answer = connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)
