declare const mermaid: {
  initialize(options: Record<string, unknown>): void;
  render(id: string, text: string): Promise<{ svg: string }>;
};
