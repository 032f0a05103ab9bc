// Links. What is visible is part of the link, so that it can be shared and Back works.

export const TABS = ['overview', 'graph', 'timeline', 'records', 'effects', 'output'] as const;
export type Tab = (typeof TABS)[number];

export type Page =
  | { page: 'runs' }
  | { page: 'run'; run: string; tab: Tab }
  | { page: 'compare'; left: string; right: string }
  | { page: 'approvals' }
  | { page: 'system' }
  | { page: 'none' };

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function pageOf(path: string): Page {
  const [first, second, third, ...more] = path.split('/').filter(Boolean).map(decoded);
  if (more.length > 0) return { page: 'none' };
  if (first === undefined || (first === 'runs' && second === undefined)) return { page: 'runs' };
  if (first === 'runs' && second !== undefined) {
    const tab = third ?? 'overview';
    return (TABS as readonly string[]).includes(tab) ? { page: 'run', run: second, tab: tab as Tab } : { page: 'none' };
  }
  if (first === 'compare' && second !== undefined && third !== undefined) return { page: 'compare', left: second, right: third };
  if (second === undefined && (first === 'approvals' || first === 'system')) return { page: first };
  return { page: 'none' };
}

export function runLink(run: string, tab: Tab = 'overview', query: Record<string, string | number | undefined> = {}): string {
  const path = `/runs/${encodeURIComponent(run)}${tab === 'overview' ? '' : `/${tab}`}`;
  return withPatch(path, new URLSearchParams(), query);
}

export function compareLink(left: string, right: string): string {
  return `/compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`;
}

/** Returns the link with a part of its query changed; empty values are left out. */
export function withPatch(path: string, query: URLSearchParams, patch: Record<string, string | number | null | undefined>): string {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === '') next.delete(name);
    else next.set(name, String(value));
  }
  next.sort();
  const text = next.toString();
  return text ? `${path}?${text}` : path;
}
