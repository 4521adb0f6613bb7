// Shows a memory and verifies it. Build the package and serve its folder: this page is
// examples/page/, and the client is dist/.
import { ApiError, MemoryLedger, VerificationError } from "../../dist/index.js";

const form = document.querySelector("form"), status = document.querySelector("[role=status]");
const article = document.querySelector("article");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { url, apiKey, id, rpcUrl } = Object.fromEntries(new FormData(form));
  article.hidden = true;
  status.textContent = "Asking …";
  try {
    const ledger = new MemoryLedger({ url, apiKey, ...(rpcUrl && { rpcUrl }) });
    const memory = await ledger.memories.get(id); // throws if the text, leaf or proof is wrong
    const receipt = await ledger.memories.receipt(id);
    show(memory, receipt);
    status.textContent = summary(receipt, rpcUrl);
  } catch (err) {
    status.textContent = problem(err);
  }
});

function summary({ leafIndex, treeSize, anchor }, rpcUrl) {
  const place = `Verified: this text is leaf ${leafIndex} of a log of ${treeSize}.`;
  if (!anchor) return `${place} It is not anchored on Solana yet.`;
  return `${place} ${rpcUrl ? "The Solana node has its root." : "Its root is said to be on Solana; name a node to see."}`;
}

function problem(err) {
  if (err instanceof VerificationError) return `Do not trust this: the ${err.liar} lies. ${err.message}`;
  if (err instanceof ApiError) return `The service refuses: ${err.message}`;
  return `No answer: ${err.message}`;
}

function show(memory, receipt) {
  const facts = {
    Written: memory.createdAt, By: memory.via ? `${memory.via.kind} ${memory.via.id}` : "unknown", Owner: receipt.entry.owner,
    Metadata: JSON.stringify(memory.metadata), Leaf: receipt.leafHash, Root: receipt.batchRoot, Transaction: receipt.anchor?.txSignature ?? "none yet",
  };
  article.querySelector("blockquote").textContent = memory.content;
  article.querySelector("dl").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: value })]));
  article.hidden = false;
}
