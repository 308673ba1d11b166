declare const highlighter: {
  highlight(code: string, options: { language: string, ignoreIllegals: boolean }): { value: string },
  getLanguage(name: string): { name: string } | undefined,
};
export default highlighter;
