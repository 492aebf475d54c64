declare module 'virtual:sdk' {
  /** The guest SDK's files by path, such as edgewise/index.ts. */
  export const library: Record<string, string>;
  export const scale: string;
  export const classes: string;
}
