'use strict';
// Does what a real extension does with its session: takes it out of the
// address, then uses the API from its own origin. The extension has no host
// permissions, so every call is subject to CORS, as a page's call would be.
(async () => {
  const fragment = location.hash.slice(1);
  const query = location.search;
  history.replaceState(null, '', location.pathname);
  const session = Object.fromEntries(new URLSearchParams(fragment));
  const call = async (method, path, body, token = session.token) => {
    const response = await fetch(session.apiUrl + path, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...(body && { 'Content-Type': 'application/json' }) },
      body: body && JSON.stringify(body),
    });
    return { status: response.status, requestId: response.headers.get('X-Request-Id'), body: await response.json() };
  };
  const report = { origin: location.origin, query, names: [...new URLSearchParams(fragment).keys()], session };
  try {
    report.me = await call('GET', '/auth/me');
    report.written = await call('POST', '/memories', {
      content: 'Kept by the extension', source: 'browser test', metadata: { page: 'callback.html' },
    });
    report.read = await call('GET', '/memories');
    report.stranger = await call('GET', '/memories', undefined, 'svc_session_unknown');
    report.logout = await call('POST', '/auth/logout');
    report.after = await call('GET', '/memories');
  } catch (error) {
    report.failure = String(error);
  }
  document.getElementById('report').textContent = JSON.stringify(report);
  document.title = 'Done';
})();
