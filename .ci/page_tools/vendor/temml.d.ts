declare const temml: { render(source: string, node: Element, options: Record<string, unknown>): void };
export default temml;
