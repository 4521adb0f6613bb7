// What the consent page does with a session: it tells the service what the user allows, and
// sends the browser to the app with a code. The app never gets the session.
const handover = {
  back: 'the app',
  root: '../',
  signature: base58,
  // An installed app opens beside this page, which does not learn of it.
  notOpened: ['Did the app open?', 'If it did, you can close this page. If not, go back to it and connect it again.'],

  async address({ token }, post, refusalOf) {
    const scopes = [...document.querySelectorAll('[name=scope]:checked')].map((box) => box.value);
    const namespaces = document.getElementById('namespaces').value.split(',').map((name) => name.trim()).filter(Boolean);
    const days = Number(document.getElementById('until').value);
    const answer = await post(`authorize${location.search}`, {
      scopes, namespaces: namespaces.length > 0 ? namespaces : undefined,
      expiresAt: days ? new Date(Date.now() + days * 86_400_000).toISOString() : undefined,
    }, token);
    if (answer.status !== 200) throw refusalOf(answer);
    return answer.body.redirect;
  },
};

function base58(bytes) {
  const letters = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  let number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n), text = '';
  for (; number > 0n; number /= 58n) text = letters[Number(number % 58n)] + text;
  for (const byte of bytes) {
    if (byte) break;
    text = `1${text}`;
  }
  return text;
}

// Without a scope there is nothing to allow.
function noteScopes() {
  const none = !document.querySelector('[name=scope]:checked');
  document.getElementById('wallets').inert = none;
}
for (const box of document.querySelectorAll('[name=scope]')) box.addEventListener('change', noteScopes);
document.getElementById('home').href = `${document.getElementById('page').dataset.api}/oauth/authorize${location.search}`;
document.getElementById('deny').addEventListener('click', ({ target }) => location.replace(target.dataset.denied));
