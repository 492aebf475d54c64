declare module 'virtual:sdk' {
  /** The guest SDK's files by path, such as edgewise/index.ts. */
  export const library: Record<string, string>;
  export const scale: string;
  export const classes: string;
}
declare module 'virtual:openapi' {
  /** The OpenAPI document of the administration API. */
  const document: Record<string, unknown>;
  export default document;
}
declare module 'virtual:inference' {
  /** The OpenAPI document of the inference API. */
  const document: Record<string, unknown>;
  export default document;
}
declare module 'virtual:grpc' {
  /** The calls of the gRPC service, in the order of its file. */
  const calls: { name: string; about: string; stream: boolean; request: string; response: string }[];
  export default calls;
}
declare module 'js-yaml' {
  export function load(text: string): unknown;
}
declare module 'virtual:gallery' {
  /** The steps that the page installs, by name: the address of the module, and what it says of itself. */
  export const gallery: Record<string, { url: string; description: string; parameters: { name: string; default?: string; description?: string }[] }>;
}
