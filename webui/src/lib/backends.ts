import type { VersionDetail } from './api';

/** What the page reads of a configuration. */
export type Declared = { backend?: string; default_model_filename?: string; model_transaction_policy?: { decoupled?: boolean }; parameters?: Record<string, { string_value?: string }> };

export const declared = (detail: Pick<VersionDetail, 'config'>) => detail.config as Declared;

/** Whether a request to the model has any number of responses. */
export const decoupled = (detail: Pick<VersionDetail, 'config'>) => declared(detail).model_transaction_policy?.decoupled === true;

/** Whether models of a kind are served by the program of a backend. */
export const external = (kind: string | undefined) => !/^(onnx|wasm|ensemble)$/.test(kind ?? '');
