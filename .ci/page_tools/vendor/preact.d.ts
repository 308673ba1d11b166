export * from "htm/preact";
