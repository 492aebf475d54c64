import type { Upload } from 'tus-js-client';
import { call, csrfHeaders, failure, Failure, get, type Job } from './api';
import type { Gathered, Parcel } from './drop';
import { live } from './live.svelte';
import { toasts } from './toast.svelte';
import { msg } from './language.svelte';

export type Transfer = {
  key: string;
  name: string;
  size: number;
  sent: number;
  /** Bytes per second over the last seconds. */
  speed: number;
  state: 'waiting' | 'sending' | 'paused' | 'reconnecting' | 'sent' | 'failed';
  /** The upload is cancelled, and that can still be undone. */
  gone: boolean;
  resumed: boolean;
  /** The model whose next version it becomes; empty: the box proposes one. */
  model: string;
  /** Why the box defers the upload; empty when it gave no reason. */
  why: string;
  trouble: Failure | null;
  job: string; // the id of the import job, once it is known
};

/** The box accepts two uploads of a user at once; the others wait here. */
const together = 2;
/** Statuses after which an upload is retried: no response, a concurrent writer, rate limits, a starting box, a proxy. */
const passing = new Set([0, 409, 423, 429, 502, 503, 504]);
const busy = new Set([423, 429]);
/** Codes of refusals that the same bytes will meet again. */
const lasting = new Set(['invalid', 'too_large', 'denied', 'unsupported']);
const patience = [0, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000, 15_000, 15_000, 15_000, 30_000, 30_000, 30_000, 60_000, 60_000, 60_000, 60_000];

/** Whether an upload, or a job, was refused for good: it is not offered to go on. */
export const refused = (code = '') => lasting.has(code);

/** Whether job is older than the known state. A restarted box restarts a job and its revision. */
function earlier(job: Job, known: Job): boolean {
  return job.created === known.created && job.revision < known.revision;
}

/** The uploads to the box and their import jobs. */
class Uploads {
  transfers = $state<Transfer[]>([]);
  jobs = $state.raw<Job[]>([]);
  /** Jobs that were discarded, while that can still be undone. */
  hidden = $state.raw<string[]>([]);
  private running = new Map<string, Upload>();
  private retried = new Set<string>();
  private blobs = new Map<string, Parcel>();
  /** Fetched once, with the first upload. */
  private protocol: Promise<typeof import('tus-js-client')> | null = null;

  /** Jobs that run or wait for the user. */
  get open(): Job[] {
    return this.jobs.filter((j) => !this.hidden.includes(j.id) && (j.state === 'running' || j.state === 'staged' || j.state === 'failed'));
  }

  /** Listens for jobs. The returned function stops listening, stops all uploads and clears the state for the next user. */
  start(): () => void {
    const ends = [live.on<Job>('job', (job) => this.note(job)), live.on<unknown>('gap', () => this.refresh())];
    void this.refresh();
    // Jobs report their progress as events. Without events the page polls while a job runs.
    const timer = setInterval(() => { if (!live.fresh && this.jobs.some((j) => j.state === 'running')) void this.refresh(); }, 2000);
    return () => {
      clearInterval(timer);
      for (const end of ends) end();
      for (const upload of this.running.values()) void upload.abort();
      this.running.clear();
      this.blobs.clear();
      this.transfers = [];
      this.jobs = [];
      this.hidden = [];
    };
  }

  async refresh(): Promise<void> {
    const before = new Set(this.jobs.map((j) => j.id));
    const answer = await get<Job[]>('/jobs').catch(() => null);
    if (!answer) return;
    const told = new Map(answer.map((j) => [j.id, j]));
    const known = new Map(this.jobs.map((j) => [j.id, j]));
    this.jobs = [
      ...this.jobs.filter((j) => !told.has(j.id) && !before.has(j.id)), // they began during the request
      ...answer.filter((j) => known.has(j.id) || !before.has(j.id)) // the others were discarded during the request
        .map((j) => (known.has(j.id) && earlier(j, known.get(j.id)!) ? known.get(j.id)! : j)),
    ];
  }

  note(job: Job): void {
    const at = this.jobs.findIndex((j) => j.id === job.id);
    if (at >= 0 && earlier(job, this.jobs[at]!)) return; // an event was newer than this response
    this.jobs = at < 0 ? [job, ...this.jobs] : this.jobs.with(at, job);
  }

  /** Uploads what can be uploaded of some files, as a version of a model if one is given, and names what cannot be. */
  async offer(gathering: Promise<Gathered>, model = ''): Promise<number> {
    try {
      const { parcels, refused } = await gathering;
      this.add(parcels, model);
      if (refused.length) toasts.show([...refused.slice(0, 3), ...(refused.length > 3 ? [msg.shell.othersRefused(refused.length - 3)] : [])].join(' '), { tone: 'bad' });
      return parcels.length;
    } catch (thrown) {
      toasts.show(failure(thrown).message, { tone: 'bad' }); // a file that cannot be read
      return 0;
    }
  }

  add(parcels: Parcel[], model = ''): void {
    for (const parcel of parcels) {
      const key = Math.random().toString(36).slice(2);
      this.blobs.set(key, parcel);
      this.transfers.unshift({ key, name: parcel.name, model, size: parcel.blob.size, sent: 0, speed: 0, state: 'waiting', gone: false, why: '', resumed: false, trouble: null, job: '' });
    }
    this.fill();
  }

  /** The uploads to a model, or to all models, that are listed. */
  to(model: string): Transfer[] {
    return this.transfers.filter((t) => !t.gone && (!model || t.model === model));
  }

  /** The jobs of a model, or of all models, that are listed: those that ended are for a minute more. */
  of(model: string, now: number): Job[] {
    return this.jobs.filter((j) => !this.hidden.includes(j.id) && (!model || j.model === model)
      && (j.state === 'running' || j.state === 'staged' || j.state === 'failed' || (j.ended !== undefined && now - new Date(j.ended).getTime() < 60_000)));
  }

  pause(key: string): void {
    void this.running.get(key)?.abort();
    this.change(key, { state: 'paused', speed: 0 });
    this.fill(); // start a waiting upload
  }

  resume(key: string): void {
    this.change(key, { state: 'waiting', trouble: null });
    this.fill();
  }

  /** Stops an upload and removes what has arrived of it, unless the user undoes that. */
  cancel(key: string): void {
    const before = this.find(key);
    if (!before) return;
    void this.running.get(key)?.abort();
    this.change(key, { state: 'paused', speed: 0, gone: true });
    toasts.soon(msg.shell.isNotUploaded(before.name), () => this.remove(key), () => { this.change(key, { gone: false }); this.resume(key); });
    this.fill();
  }

  private async remove(key: string): Promise<void> {
    const upload = this.running.get(key);
    this.forget(key);
    await upload?.abort(true).catch(() => {});
    this.fill();
  }

  forget(key: string): void {
    this.running.delete(key);
    this.blobs.delete(key);
    this.transfers = this.transfers.filter((t) => t.key !== key);
  }

  /** Discards a job and its files, unless the user undoes that. A running job is stopped at once. */
  discard(job: Job): void {
    const gone = () => call('DELETE', `/jobs/${job.id}`).then(() => { this.jobs = this.jobs.filter((j) => j.id !== job.id); });
    if (job.state !== 'staged') {
      gone().catch((thrown: unknown) => toasts.show(failure(thrown).message, { tone: 'bad' }));
      return;
    }
    this.hidden = [...this.hidden, job.id];
    const back = () => { this.hidden = this.hidden.filter((id) => id !== job.id); };
    toasts.soon(msg.shell.wasDiscarded(job.filename), gone, back);
  }

  async activate(job: Job, options: object): Promise<void> {
    this.note(await call<Job>('POST', `/jobs/${job.id}/activate`, options));
  }

  private find(key: string): Transfer | undefined {
    return this.transfers.find((t) => t.key === key);
  }

  private change(key: string, change: Partial<Transfer>): void {
    const transfer = this.find(key);
    if (transfer) Object.assign(transfer, change);
  }

  private fill(): void {
    const busy = this.transfers.filter((t) => t.state === 'sending' || t.state === 'reconnecting').length;
    const waiting = [...this.transfers].reverse().filter((t) => t.state === 'waiting');
    for (const transfer of waiting.slice(0, Math.max(0, together - busy))) this.send(transfer.key);
  }

  private send(key: string): void {
    const parcel = this.blobs.get(key);
    if (!parcel) return;
    this.change(key, { state: 'sending' });
    this.begin(key, parcel).catch((thrown) => { this.change(key, { state: 'failed', trouble: failure(thrown) }); this.fill(); });
  }

  private async begin(key: string, parcel: Parcel): Promise<void> {
    const tus = await (this.protocol ??= import('tus-js-client').catch((thrown) => { this.protocol = null; throw thrown; }));
    const upload = this.running.get(key) ?? this.prepare(tus, key, parcel, this.find(key)?.model ?? '');
    this.running.set(key, upload);
    const last = (await upload.findPreviousUploads())[0];
    if (last && !upload.url) {
      upload.resumeFromPreviousUpload(last);
      this.change(key, { resumed: true });
    }
    if (this.find(key)?.state === 'sending') upload.start();
  }

  private prepare(tus: typeof import('tus-js-client'), key: string, parcel: Parcel, model: string): Upload {
    let before = { time: performance.now(), sent: 0 };
    return new tus.Upload(parcel.blob, {
      endpoint: '/api/v1/uploads',
      metadata: { filename: parcel.name, ...(model ? { model } : {}) },
      retryDelays: patience,
      removeFingerprintOnSuccess: true,
      fingerprint: async (file) => fingerprint(model, parcel.name, file as Blob),
      onBeforeRequest: (request) => {
        for (const [name, value] of Object.entries(csrfHeaders())) request.setHeader(name, value);
      },
      onShouldRetry: (error) => {
        const status = error.originalResponse?.getStatus() ?? 0;
        const again = passing.has(status);
        if (again) this.change(key, { state: 'reconnecting', speed: 0, why: busy.has(status) ? reason(error, error.originalResponse?.getBody() ?? '').message : '' });
        return again;
      },
      onProgress: (sent) => {
        const now = performance.now();
        const seconds = (now - before.time) / 1000;
        const transfer = this.find(key);
        if (!transfer) return;
        if (seconds > 0.5) {
          const speed = Math.max(0, sent - before.sent) / seconds;
          Object.assign(transfer, { speed: transfer.speed ? 0.7 * transfer.speed + 0.3 * speed : speed });
          before = { time: now, sent };
        }
        Object.assign(transfer, { sent, state: transfer.state === 'paused' ? 'paused' : 'sending' });
      },
      onUploadUrlAvailable: () => this.change(key, { job: upload(this.running.get(key)) }),
      onSuccess: () => this.finished(key),
      onError: (error) => {
        const text = 'originalResponse' in error ? error.originalResponse?.getBody() : '';
        this.change(key, { state: 'failed', speed: 0, trouble: reason(error, text ?? '') });
        this.fill();
        if ('originalResponse' in error && error.originalResponse?.getStatus() === 401) this.again(key);
      },
    });
  }

  /** The session has ended. The request for the jobs opens a login, after which the upload resumes once. */
  private again(key: string): void {
    if (this.retried.has(key)) return;
    this.retried.add(key);
    get<Job[]>('/jobs').then(() => { if (this.find(key)?.state === 'failed') this.resume(key); }).catch(() => {});
  }

  private finished(key: string): void {
    const job = upload(this.running.get(key));
    this.change(key, { state: 'sent', job });
    void get<Job>(`/jobs/${job}`).then((j) => this.note(j)).catch(() => {}).finally(() => this.forget(key));
    this.fill();
  }
}

function upload(of: Upload | undefined): string {
  return of?.url?.split('/').at(-1) ?? '';
}

/** The identity of a chosen file: an interrupted upload resumes when the same file is chosen again. */
function fingerprint(model: string, name: string, blob: Blob): string {
  const changed = blob instanceof File ? blob.lastModified : 0;
  return ['edgewise', model, name, blob.size, changed].join('|');
}

function reason(error: Error, text: string): Failure {
  try {
    const body = JSON.parse(text);
    if (body.error) return new Failure(body.error, 0, body, 'upload');
  } catch {
    // the response has no message
  }
  return error.message.includes('tus:') ? new Failure(msg.shell.connectionBoxWasLost, 0, {}, error.message) : failure(error);
}

export const uploads = new Uploads();
