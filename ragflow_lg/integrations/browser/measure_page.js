(limit => {
  let size = 0;
  const nodes = [document];
  while (nodes.length && size <= limit) {
    const node = nodes.pop();
    size += 20 + (node.nodeValue || "").length;
    for (const attribute of node.attributes || []) size += attribute.value.length;
    if (node.shadowRoot) nodes.push(node.shadowRoot);
    for (let child = node.firstChild; child; child = child.nextSibling) {
      nodes.push(child);
      if (nodes.length > limit) return nodes.length;
    }
  }
  return size;
})
