// Writes src/api.ts, the types of the HTTP API, from the OpenAPI document of a daemon that is started for it. With `--check`, says
// only whether the file is what the daemon's document gives. TIFFANY_PROGRAM is the program that serves.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const file = join(here, "../src/api.ts");
const program = process.env.TIFFANY_PROGRAM ?? join(here, "../../../target/debug/tiffany");

async function document() {
  const dir = mkdtempSync(join(tmpdir(), "tiffany-openapi-"));
  const daemon = spawn(program, ["--dir", dir, "--json", "serve", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    for await (const line of createInterface({ input: daemon.stdout })) {
      const { url } = JSON.parse(line);
      return await (await fetch(`${url}/openapi.json`)).json();
    }
    throw new Error(`${program} did not serve`);
  } finally {
    daemon.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  }
}

function name(ref) {
  return ref.replace("#/components/schemas/", "");
}

function type(schema, indent) {
  if (schema.$ref) return name(schema.$ref);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.allOf) return schema.allOf.map((part) => type(part, indent)).join(" & ");
  const either = schema.oneOf ?? schema.anyOf;
  if (either && !schema.properties) return either.map((part) => type(part, indent)).join(" | ");
  const kinds = Array.isArray(schema.type) ? schema.type : [schema.type];
  return kinds.map((kind) => simple(kind, schema, indent)).join(" | ");
}

function simple(kind, schema, indent) {
  switch (kind) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array": {
      const item = schema.items ? type(schema.items, indent) : "unknown";
      return `Array<${item}>`;
    }
    case "object":
      return object(schema, indent);
    default:
      return schema.properties ? object(schema, indent) : "unknown";
  }
}

function object(schema, indent) {
  const properties = Object.entries(schema.properties ?? {});
  if (properties.length === 0) {
    const values = schema.additionalProperties;
    const value = values && typeof values === "object" ? type(values, indent) : "unknown";
    return `Record<string, ${value}>`;
  }
  const required = new Set(schema.required ?? []);
  const deeper = `${indent}  `;
  const lines = properties.map(([key, value]) => {
    const about = value.description ? `${deeper}/** ${value.description.replaceAll("*/", "* /")} */\n` : "";
    const word = /^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key);
    return `${about}${deeper}${word}${required.has(key) ? "" : "?"}: ${type(value, deeper)};`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

function generated({ components }) {
  const types = Object.entries(components.schemas).map(([key, schema]) => {
    const about = schema.description ? `/** ${schema.description.replaceAll("*/", "* /")} */\n` : "";
    return `${about}export type ${key} = ${type(schema, "")};\n`;
  });
  const head = "// The types of the HTTP API, generated from its OpenAPI document: `npm run generate` writes this file.\n\n";
  return head + types.join("\n");
}

const text = generated(await document());
if (!process.argv.includes("--check")) {
  writeFileSync(file, text);
} else if (readFileSync(file, "utf8") !== text) {
  console.error("clients/typescript/src/api.ts is stale; run `npm run generate` there and commit it");
  process.exit(1);
}
