// An HTTP function: fnd starts it when it is called, keeps it running, and passes requests to `fetch`.
//
// What it prints is the log. Access to the network, files and programs is granted by `permissions` in the manifest.
export default {
  async fetch(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const bytes = (await request.arrayBuffer()).byteLength;
    return Response.json({ path, bytes });
  },
};
