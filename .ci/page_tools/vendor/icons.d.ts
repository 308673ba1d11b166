export const ICONS: Record<string, [string, Record<string, string>][]>;
