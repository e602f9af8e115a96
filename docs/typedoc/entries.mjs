// A plugin of TypeDoc. Comments of options are inherited by types of other entries, where their links name what only
// `dpr-web` exports: such a link leads there. A link to what nobody exports stays a warning, which refuses the build.
import { Application, Converter, ReflectionKind } from 'typedoc';

/** @param {Application} app */
export function load(app) {
  let main;
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    // TypeDoc names the entries by their folders; people import them by the name of the package.
    for (const entry of project.getChildrenByKind(ReflectionKind.Module)) {
      if (entry.name === 'index') main = entry;
      entry.name = entry === main ? 'dpr-web' : `dpr-web/${entry.name}`;
    }
  });
  app.converter.addUnknownSymbolResolver(({ symbolReference }, _reflection, part) => {
    const path = symbolReference?.path?.map(({ path }) => path);
    // Without a part it is a type of another package.
    const target = part && path && main?.getChildByName(path);
    return target && { target };
  });
}
