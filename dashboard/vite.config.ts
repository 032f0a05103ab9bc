// How the page is built: one script and one style sheet with fixed names, into the assets that the daemon embeds.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

const daemon = process.env.TIFFANY_URL ?? 'http://127.0.0.1:8787';
// The daemon lets in only pages of its own, so a request through the proxy must look like one.
const toDaemon = { target: daemon, changeOrigin: true, ws: true, headers: { origin: daemon } };
const proxy = { '/api': toDaemon, '/metrics': toDaemon, '/docs': toDaemon, '/openapi.json': toDaemon };

export default defineConfig(({ command }) => ({
  // The daemon serves the files under /assets, and the page itself at every path of the page.
  base: command === 'build' ? '/assets/' : '/',
  plugins: [svelte()],
  server: { host: '127.0.0.1', proxy },
  build: {
    outDir: '../crates/daemon/assets',
    emptyOutDir: true,
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: {
      output: {
        entryFileNames: 'app.js',
        assetFileNames: (asset) => (asset.names.some((name) => name.endsWith('.css')) ? 'app.css' : '[name][extname]'),
        codeSplitting: false,
      },
    },
  },
}));
