// Reads a JSON list of TraceQL queries from standard input, and says for each where it does not parse.
// The first argument is the folder of @grafana/lezer-traceql.
import { readFileSync } from "node:fs";

const { parser } = await import(`${process.argv[2]}/index.es.js`);
const wrong = (query) => {
  const found = [];
  parser.parse(query).iterate({ enter: (node) => void (node.type.isError && found.push(`${node.from}: ${query.slice(node.from)}`)) });
  return found;
};
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(wrong)));
