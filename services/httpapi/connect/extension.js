// What the sign-in page does with a session: it hands it to the browser extension.
const handover = {
  back: 'the extension',
  root: '',
  signature: (bytes) => [...bytes],
  notOpened: ['The extension did not open',
    'Check that it is installed in this browser and switched on, then try again.'],

  // The fragment is seen by no server.
  async address({ token, publicKey, expiresAt }) {
    const { callback, api } = document.getElementById('page').dataset; // checked by the server
    return `${callback}#${new URLSearchParams([['token', token], ['publicKey', publicKey], ['expiresAt', expiresAt], ['apiUrl', api]])}`;
  },
};
