export * from "diff-match-patch-es";
