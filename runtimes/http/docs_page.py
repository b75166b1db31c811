"""The page at /docs: reads /openapi.json and shows it. It loads nothing from anywhere else, so it works offline."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}
summary{cursor:pointer}code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:var(--soft);padding:.6rem;overflow:auto;border-radius:4px}
.m{display:inline-block;width:3.6rem;font-weight:700;text-transform:uppercase}
.get{color:#2a7de1}.post{color:#1a9c5b}.put{color:#c77700}
table{border-collapse:collapse;width:100%}td,th{text-align:left;border-bottom:1px solid var(--line);padding:.25rem .5rem;vertical-align:top}
"""

SCRIPT = """
const el=(tag,text,cls)=>{const e=document.createElement(tag);if(text!==undefined)e.textContent=text;if(cls)e.className=cls;return e};
const name=r=>r.split('/').pop();
const short=s=>{if(!s)return'';if(s.$ref)return name(s.$ref);if(s.anyOf)return s.anyOf.map(short).join(' | ');
 if(s.type==='array')return short(s.items)+'[]';
 if(s.type==='object'&&s.additionalProperties)return'{text: '+short(s.additionalProperties)+'}';
 return s.enum?s.enum.join(' | '):(s.type||'any')};
const table=(heads,rows)=>{const t=el('table'),h=el('tr');
 heads.forEach(x=>h.append(el('th',x)));t.append(h);
 rows.forEach(r=>{const tr=el('tr');r.forEach(x=>tr.append(el('td',x)));t.append(tr)});return t};
const fields=s=>table(['field','type','about'],
 Object.entries(s.properties||{}).map(([k,v])=>
 [k+((s.required||[]).includes(k)?' *':''),short(v),
  [v.description,'default' in v?'default '+JSON.stringify(v.default):''].filter(Boolean).join('; ')]));
const content=(c,doc)=>Object.entries(c||{}).map(([type,v])=>type+(v.schema?' '+short(v.schema):'')).join(', ');
fetch('openapi.json').then(r=>r.json()).then(doc=>{
 const main=document.querySelector('main'),groups={};
 document.querySelector('#v').textContent=doc.info.version;
 for(const[path,ops]of Object.entries(doc.paths))
  for(const[method,op]of Object.entries(ops))(groups[op.tags[0]]??=[]).push([path,method,op]);
 for(const[tag,list]of Object.entries(groups)){main.append(el('h2',tag));
  for(const[path,method,op]of list){const d=el('details'),s=el('summary');
   s.append(el('span',method,'m '+method),el('code',path),el('span',' - '+op.summary));d.append(s);
   if(op.parameters.length)d.append(el('h4','Parameters'),
    table(['name','in','type','about'],
    op.parameters.map(p=>[p.name,p.in,short(p.schema),p.description])));
   if(op.requestBody){d.append(el('h4','Body'),el('p',content(op.requestBody.content)));
    const r=op.requestBody.content['application/json'];if(r)d.append(fields(doc.components.schemas[name(r.schema.$ref)]))}
   d.append(el('h4','Answers'),table(['status','about','content'],
    Object.entries(op.responses).map(([k,v])=>[k,v.description,content(v.content)])));
   main.append(d)}}
 main.append(el('h2','schemas'));
 for(const[k,s]of Object.entries(doc.components.schemas)){
  const d=el('details');d.id=k;d.append(el('summary',k));
  if(s.description)d.append(el('p',s.description));d.append(fields(s));main.append(d)}
}).catch(e=>document.querySelector('main').append(el('pre',String(e))));
"""

PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f"<title>Gridweave API</title><style>{STYLE}</style></head><body><h1>Gridweave API <small id=v></small></h1>"
    '<p>The same as <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>'
    f"<main></main><script>{SCRIPT}</script></body></html>"
)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


POLICY = f"default-src 'none'; connect-src 'self'; script-src 'sha256-{_digest(SCRIPT)}'; style-src 'sha256-{_digest(STYLE)}'"
