import type { components } from '../api/schema';

export type Schemas = components['schemas'];
export type Model = Schemas['Model'];
export type Version = Schemas['Version'];
export type VersionDetail = Schemas['VersionDetail'];
export type TensorInfo = Schemas['TensorInfo'];
export type Job = Schemas['Job'];
export type Deployment = Schemas['Deployment'];
export type System = Schemas['System'];
export type Session = Schemas['Session'];
export type Tick = Schemas['Tick'];
export type History = Schemas['History'];
export type Trace = Schemas['Trace'];

/** An answer of the box that is an error, or no answer: status 0. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly body: Partial<Schemas['Error']> = {},
    readonly request = '',
  ) {
    super(message);
  }
  /** What a reader can copy for whoever helps. */
  get details(): string {
    return JSON.stringify({ request: this.request, status: this.status, ...this.body }, null, 2);
  }
}

/** Asks the reader for a login or a password; false when they would rather not. */
export type Challenge = (kind: 'login' | 'confirm') => Promise<boolean>;

const credentials = { csrf: '', challenge: (async () => false) as Challenge };

/** Sets what requests carry, and who is asked when the box wants more. */
export function identify(change: Partial<typeof credentials>): void {
  Object.assign(credentials, change);
}

/** The headers that every request other than GET carries. */
export function csrfHeaders(): Record<string, string> {
  return credentials.csrf ? { 'X-CSRF-Token': credentials.csrf } : {};
}

export type Options = {
  method?: string;
  body?: unknown; // sent as JSON, unless it is bytes
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Do not ask for a login when the box wants one. */
  silent?: boolean;
};

/** Sends a request and returns its answer when the box agrees. */
export async function send(path: string, options: Options = {}): Promise<Response> {
  const method = options.method ?? (options.body === undefined ? 'GET' : 'POST');
  const response = await transmit(path, method, options);
  if (response.ok) return response;
  const failure = await read(response, `${method} ${path}`);
  const kind = wants(failure);
  if (kind && !options.silent && (await credentials.challenge(kind))) {
    const again = await transmit(path, method, options);
    if (again.ok) return again;
    throw await read(again, `${method} ${path}`);
  }
  throw failure;
}

function wants(failure: Failure): 'login' | 'confirm' | null {
  if (failure.body.reason === 'confirm_required') return 'confirm';
  if (failure.status === 401 || failure.body.reason === 'csrf' || failure.body.reason === 'login_required') return 'login';
  return null;
}

async function transmit(path: string, method: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json', ...options.headers };
  let body: BodyInit | undefined;
  if (options.body instanceof Blob || options.body instanceof Uint8Array) {
    body = options.body as BodyInit;
  } else if (options.body !== undefined) {
    headers['Content-Type'] ??= 'application/json';
    body = JSON.stringify(options.body);
  }
  if (method !== 'GET' && method !== 'HEAD') Object.assign(headers, csrfHeaders());
  try {
    // What is deleted when the page is left is deleted all the same.
    return await fetch(path, { method, headers, body, signal: options.signal, credentials: 'same-origin', ...(method === 'DELETE' ? { keepalive: true } : {}) });
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    throw new Failure('The box does not answer. Check that it is on and that this device is on the same network.', 0, {}, `${method} ${path}`);
  }
}

async function read(response: Response, request: string): Promise<Failure> {
  const text = await response.text().catch(() => '');
  let body: Partial<Schemas['Error']> = {};
  try {
    body = JSON.parse(text);
  } catch {
    // not ours: something between the box and the page answered
  }
  const message = body.error ?? (text.length > 0 && text.length < 300 && !text.startsWith('<') ? text : `The box answered with status ${response.status}.`);
  return new Failure(sentence(message), response.status, body, request);
}

function sentence(text: string): string {
  const trimmed = text.trim();
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : first + '.';
}

/** Asks /api/v1 for JSON. */
export async function get<T>(path: string, options: Options = {}): Promise<T> {
  return (await send('/api/v1' + path, options)).json();
}

/** Sends JSON to /api/v1 and reads the answer, undefined when it is empty. */
export async function call<T = void>(method: string, path: string, body?: unknown, options: Options = {}): Promise<T> {
  const response = await send('/api/v1' + path, { ...options, method, body });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Whatever was thrown, as a Failure. */
export function failure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  if (thrown instanceof TypeError && /fetch|network/i.test(thrown.message)) return new Failure('The connection to the box broke off. Try it again.', 0);
  return new Failure(thrown instanceof Error ? thrown.message : String(thrown), 0);
}
