// A program that uses BullMQ, in one Node process: a Queue submits, and a Worker works and promotes delayed jobs. It takes
// the same steps as the programs in Go; package peer says which.
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { Queue, Worker } from "bullmq";

const concurrency = 64;
const submitters = 64; // that submit one job in each call, at once
const bulkSubmitters = 8; // that submit many jobs in each call, at once
const poll = 1; // ms

const [url, tasks, before] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const connect = () => new Redis(url, { maxRetriesPerRequest: null });
const queue = new Queue("default", { connection: connect() });
await queue.waitUntilReady();

const now = () => (performance.timeOrigin + performance.now()) / 1000;

let endedBefore = 0;
let payloads = [];
let handled, first, allHandled, done;

// expect makes payloads of n jobs, which are counted from now on. They have 200 bytes as JSON: 198 letters and digits in quotes.
function expect(n) {
  endedBefore += payloads.length;
  payloads = Array.from({ length: n }, () => randomBytes(99).toString("hex"));
  handled = 0;
  done = new Promise((resolve) => { allHandled = resolve; });
}

async function handle() {
  handled++;
  if (handled === 1) first = now();
  if (handled === payloads.length) allHandled();
}

// share calls f for 0 to n-1 from a number of loops.
async function share(n, callers, f) {
  await Promise.all(Array.from({ length: callers }, async (_, c) => {
    for (let i = c; i < n; i += callers) await f(i);
  }));
}

// The delay counts from the moment of the call, as BullMQ has no due time.
const options = (due) => (due ? { delay: Math.max(0, due - Date.now()) } : {});

async function submit({ batch, due }) {
  const begin = now();
  const n = payloads.length;
  if (batch === 1) {
    await share(n, submitters, (i) => queue.add("work", payloads[i], options(due)));
  } else {
    await share(Math.ceil(n / batch), bulkSubmitters, (i) =>
      queue.addBulk(payloads.slice(i * batch, (i + 1) * batch).map((data) => (
        { name: "work", data, opts: options(due) }))));
  }
  return { seconds: now() - begin };
}

async function startWorker() {
  const worker = new Worker("default", handle, { connection: connect(), concurrency });
  worker.on("error", (err) => console.error(err));
  await worker.waitUntilReady();
  return worker;
}

async function work() {
  await startWorker();
  return {};
}

async function awaitAll() {
  await done;
  for (;;) {
    const ended = await queue.getCompletedCount() - endedBefore;
    if (ended >= payloads.length) return { first, last: now() };
    await new Promise((resolve) => setTimeout(resolve, poll));
  }
}

async function check() {
  const { completed, ...others } = await queue.getJobCounts();
  for (const [state, n] of Object.entries(others)) {
    if (n > 0) throw new Error(`${n} jobs are ${state}`);
  }
  return { handled, ended: completed - endedBefore };
}

// warmUp submits and runs n jobs in each way that is measured.
async function warmUp(n) {
  for (const batch of [1, 1000]) {
    expect(n / 2);
    await submit({ batch });
    const worker = await startWorker();
    await awaitAll();
    await worker.close();
  }
}

const steps = { submit, work, await: awaitAll, check };
const answer = (a) => process.stdout.write(JSON.stringify(a) + "\n");

await warmUp(before);
expect(tasks);
answer({});
for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  try {
    answer(await steps[step.do](step));
  } catch (err) {
    answer({ error: String(err) });
  }
}
process.exit(0);
