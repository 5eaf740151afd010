#!/usr/bin/env python3
"""A worker of DTS in Python, without dependencies: python3 worker.py [SERVER...]. docs/workers.md explains the calls."""
import http.client, json, os, signal, socket, sys, threading, time, urllib.error, urllib.request

servers = sys.argv[1:] or ["http://127.0.0.1:8080"]  # it goes on with the next one if one is away
worker = f"{socket.gethostname()}-{os.getpid()}"
capacity, lease = 4, float(os.environ.get("DTS_LEASE", 15))
running, stopping = {}, threading.Event()  # running: attempts by token

def call(method, path, body=None):
    while True:
        request = urllib.request.Request(servers[0] + path, json.dumps(body).encode() if body else None,
                                         {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or "null")
        except (OSError, http.client.HTTPException) as error:  # also what urllib raises
            if getattr(error, "code", 503) < 500:
                raise  # asking again would not help
            servers.append(servers.pop(0))
            time.sleep(0.5)

class Attempt:
    def __init__(self, given):
        self.given, self.verdict, self.until = given, "running", time.monotonic() + lease
        self.name = {key: given[key] for key in ("namespace", "task", "attempt", "token")}

    def send(self, what, **body):
        path = "/v1/tasks/{task}/attempts/{attempt}/{}?namespace={namespace}".format(what, **self.given)
        call("POST", path, {"token": self.given["token"], **body})

    def report(self, **body):
        """Reports progress (and note), checkpoint or lines. Raises InterruptedError if the attempt is to stop."""
        if self.verdict != "running" or time.monotonic() > self.until:  # another worker may run the next attempt
            raise InterruptedError(self.verdict if self.verdict != "running" else "lost")
        self.send("report", **body)

    def run(self):
        try:
            end = {"outcome": "succeeded", "result": handlers[self.given["type"]](self, self.given["payload"], self.given.get("checkpoint"))}
        except InterruptedError as stop:
            end = {"outcome": str(stop)}
        except Exception as error:
            end = {"outcome": "failed", "error": repr(error)}
        try:
            if end["outcome"] != "lost":
                self.send("finish", **end)
        finally:
            del running[self.given["token"]]

def extend():
    while True:
        held, asked = list(running.values()), time.monotonic()
        answer = call("POST", f"/v1/workers/{worker}/extend", {"attempts": [a.name for a in held], "lease": f"{lease}s"})
        for attempt, extended in zip(held, answer["attempts"]):
            if extended["verdict"] == "running":
                attempt.until = asked + lease
            elif extended["verdict"] != "unknown":
                attempt.verdict = extended["verdict"]
        time.sleep(lease / 3)

def count(attempt, payload, checkpoint):  # the work: it counts, and goes on where an earlier attempt stopped
    first = (checkpoint or {"done": 0})["done"]
    for i in range(first, payload["to"]):
        time.sleep(payload["pause"])
        attempt.report(progress=100 * (i + 1) // payload["to"], note=f"{i + 1} counted", checkpoint={"done": i + 1})
    return f"counted from {first} to {payload['to']}"

handlers = {"count": count}
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
threading.Thread(target=extend, daemon=True).start()
while running or not stopping.is_set():
    free = 0 if stopping.is_set() else capacity - len(running)
    if not free:
        time.sleep(0.1)
        continue
    offer = {"types": list(handlers), "capacity": capacity, "max": free, "wait": "5s", "lease": f"{lease}s",
             "request": str(time.monotonic_ns())}  # call() repeats it with this name if the answer is lost
    for given in call("POST", f"/v1/workers/{worker}/take", offer)["attempts"]:
        running[given["token"]] = Attempt(given)
        threading.Thread(target=running[given["token"]].run).start()
call("DELETE", f"/v1/workers/{worker}")
