// Forms for a JSON Schema: the fields, and the value that they form.
import type { Schema } from './types';

export type Field =
  | { name: string; as: 'text' | 'number' | 'integer' | 'json'; isRequired: boolean; isNullable: boolean; schema: Schema }
  | { name: string; as: 'flag'; isRequired: boolean; isNullable: boolean; schema: Schema }
  | { name: string; as: 'fixed'; isRequired: boolean; isNullable: boolean; schema: Schema }
  | { name: string; as: 'choice'; choices: { value: unknown; text: string }[]; isRequired: boolean; isNullable: boolean; schema: Schema };

/**
 * Returns the fields of an object, or one field without a name for another value; null if only JSON
 * can express the value.
 */
export function fieldsOf(schema: Schema | null | undefined): Field[] | null {
  if (!schema) return null;
  if (schema.type === 'object' && schema.properties) {
    // The names have any order; required fields keep the order in which the author listed them.
    const required = schema.required ?? [];
    const place = (field: Field) => (field.isRequired ? required.indexOf(field.name) : required.length);
    const fields = Object.entries(schema.properties).map(([name, inner]) => fieldOf(name, inner, required.includes(name)));
    return fields.sort((a, b) => place(a) - place(b));
  }
  if (schema.type === 'null') return [];
  const field = fieldOf('', schema, true);
  return field.as === 'json' ? null : [field];
}

function typesOf(schema: Schema): string[] {
  if (schema.type) return Array.isArray(schema.type) ? schema.type : [schema.type];
  return (schema.anyOf ?? []).flatMap((one) => (one.type ? typesOf(one) : ['any']));
}

/** Values to choose from: listed, or one by one with a title. */
function choicesOf(schema: Schema): { value: unknown; text: string }[] {
  if (schema.enum) return schema.enum.map((value) => ({ value, text: typeof value === 'string' ? value : JSON.stringify(value) }));
  const each = schema.oneOf ?? [];
  if (!each.every((one) => one.const !== undefined)) return [];
  return each.map((one) => ({ value: one.const, text: one.title ?? JSON.stringify(one.const) }));
}

function fieldOf(name: string, schema: Schema, isRequired: boolean): Field {
  const types = typesOf(schema);
  const isNullable = types.includes('null');
  const [type, ...more] = types.filter((one) => one !== 'null');
  const rest = { name, isRequired, isNullable, schema };
  if (schema.const !== undefined) return { ...rest, as: 'fixed' };
  const choices = choicesOf(schema);
  if (choices.length > 0) return { ...rest, as: 'choice', choices };
  if (more.length > 0) return { ...rest, as: 'json' };
  if (type === 'boolean') return { ...rest, as: 'flag' };
  if (type === 'string') return { ...rest, as: 'text' };
  if (type === 'number' || type === 'integer') return { ...rest, as: type };
  return { ...rest, as: 'json' };
}

const EMPTY: Record<string, unknown> = { string: '', integer: 0, number: 0, boolean: false, array: [] };

/** Returns a value of the form of a schema, with its required parts and no content. */
function skeleton(schema: Schema): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [one] = schema.anyOf ?? schema.oneOf ?? [];
  if (one) return skeleton(one);
  if (schema.properties) return Object.fromEntries((schema.required ?? []).map((name) => [name, skeleton(schema.properties![name] ?? {})]));
  return EMPTY[typesOf(schema)[0] ?? ''] ?? null;
}

/** Returns the initial text of a field. */
export function firstText(field: Field): string {
  const { default: first } = field.schema;
  if (field.as === 'flag') return first === true ? 'true' : 'false';
  const isBare = first === undefined || first === null;
  // A template with the required names of an object, to be filled in.
  if (isBare && field.as === 'json' && field.isRequired && field.schema.properties) return JSON.stringify(skeleton(field.schema), null, 2);
  if (isBare) return field.as === 'choice' && field.isRequired ? JSON.stringify(field.choices[0]!.value) : '';
  return field.as === 'text' ? String(first) : JSON.stringify(first);
}

export type Made = { value: unknown } | { problems: Record<string, string> };

/** Returns the value of the fields, or the problems by field. */
export function valueOf(fields: readonly Field[], texts: Readonly<Record<string, string>>): Made {
  const problems: Record<string, string> = {};
  const made: Record<string, unknown> = {};
  for (const field of fields) {
    const text = texts[field.name] ?? '';
    const one = oneValue(field, text);
    if ('problem' in one) problems[field.name] = one.problem;
    else if (one.value !== undefined) made[field.name] = one.value;
  }
  if (Object.keys(problems).length > 0) return { problems };
  if (fields.length === 0) return { value: null };
  return { value: fields.length === 1 && fields[0]!.name === '' ? (made[''] ?? null) : made };
}

function oneValue(field: Field, text: string): { value: unknown } | { problem: string } {
  if (field.as === 'fixed') return { value: field.schema.const };
  if (field.as === 'flag') return { value: text === 'true' };
  if (text === '' && field.as !== 'text') return field.isRequired && !field.isNullable ? { problem: 'a value is required' } : { value: field.isRequired ? null : undefined };
  if (field.as === 'text') {
    if (text === '' && !field.isRequired) return { value: undefined };
    return text === '' && field.isNullable ? { value: null } : { value: text };
  }
  if (field.as === 'number' || field.as === 'integer') {
    const value = Number(text);
    if (!Number.isFinite(value)) return { problem: 'not a number' };
    if (field.as === 'integer' && !Number.isInteger(value)) return { problem: 'a whole number is required' };
    if (field.schema.minimum !== undefined && value < field.schema.minimum) return { problem: `at least ${field.schema.minimum}` };
    if (field.schema.maximum !== undefined && value > field.schema.maximum) return { problem: `at most ${field.schema.maximum}` };
    return { value };
  }
  return parsed(text);
}

/** Parses typed JSON. */
export function parsed(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { problem: `not valid JSON: ${(error as Error).message}` };
  }
}
