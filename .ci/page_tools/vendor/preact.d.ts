export * from "htm/preact";
export { createContext } from "preact";
