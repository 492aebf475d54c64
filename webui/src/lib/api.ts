import type { components } from '../api/schema';
import { msg } from './language.svelte';
import { sizes } from './sizes';

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

/** An error response of the box; status 0 when there was no response. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly body: Partial<Schemas['Error']> = {},
    readonly request = '',
  ) {
    super(sizes(message));
  }
  /** The details that a user copies for support. */
  get details(): string {
    return JSON.stringify({ request: this.request, status: this.status, ...this.body }, null, 2);
  }
}

/** Asks the user for a login or a password; false when the user cancels. */
export type Challenge = (kind: 'login' | 'confirm') => Promise<boolean>;

const credentials = { csrf: '', challenge: (async () => false) as Challenge };

/** Sets the headers of requests, and the handler of login and confirmation challenges. */
export function identify(change: Partial<typeof credentials>): void {
  Object.assign(credentials, change);
}

/** The headers of every request other than GET. */
export function csrfHeaders(): Record<string, string> {
  return credentials.csrf ? { 'X-CSRF-Token': credentials.csrf } : {};
}

export type Options = {
  method?: string;
  body?: unknown; // JSON, or bytes
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Do not open a login on 401. */
  silent?: boolean;
};

/** Sends a request and returns its response when it succeeded. */
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
    // A deletion is completed even when the page is closed.
    return await fetch(path, { method, headers, body, signal: options.signal, credentials: 'same-origin', ...(method === 'DELETE' ? { keepalive: true } : {}) });
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    throw new Failure(msg.core.boxDoesNotAnswer, 0, {}, `${method} ${path}`);
  }
}

async function read(response: Response, request: string): Promise<Failure> {
  const text = await response.text().catch(() => '');
  let body: Partial<Schemas['Error']> = {};
  try {
    body = JSON.parse(text);
  } catch {
    // the response is not from the box but from a proxy
  }
  const message = body.error ?? (text.length > 0 && text.length < 300 && !text.startsWith('<') ? text : msg.core.boxAnsweredWithStatus(response.status));
  return new Failure(sentence(message), response.status, body, request);
}

function sentence(text: string): string {
  const trimmed = text.trim();
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : first + '.';
}

/** Reads JSON from /api/v1. */
export async function get<T>(path: string, options: Options = {}): Promise<T> {
  return (await send('/api/v1' + path, options)).json();
}

/** Sends JSON to /api/v1 and reads the response; undefined when it is empty. */
export async function call<T = void>(method: string, path: string, body?: unknown, options: Options = {}): Promise<T> {
  const response = await send('/api/v1' + path, { ...options, method, body });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Converts any thrown value to a Failure. */
export function failure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  if (thrown instanceof TypeError && /fetch|network/i.test(thrown.message)) return new Failure(msg.core.connectionBoxBrokeOff, 0);
  return new Failure(thrown instanceof Error ? thrown.message : String(thrown), 0);
}
