"""The files of each site, and the 200 paths that both servers are asked for."""

import os

COUNT = 200

FILES = {
    "wordpress": """
        index.php wp-login.php wp-cron.php wp-load.php wp-settings.php wp-config.php wp-config-sample.php xmlrpc.php
        wp-config.php.bak wp-config.php~ wp-config.php.save wp-config.old readme.html license.txt robots.txt favicon.ico
        backup.sql backup.sql.gz dump.SQL error.log php.ini .htaccess .env .user.ini .git/config .git/HEAD .svn/entries
        .well-known/security.txt wp-admin/index.php wp-admin/admin-ajax.php wp-admin/install.php
        wp-admin/css/login.css wp-includes/version.php wp-includes/js/jquery.js wp-includes/.hidden.js
        wp-content/index.php wp-content/uploads/2026/photo.jpg wp-content/uploads/2026/shell.php
        wp-content/uploads/2026/Shell.PHP wp-content/uploads/2026/notes.txt wp-content/uploads/index.html
        wp-content/cache/page.html wp-content/cache/run.php wp-content/plugins/a/a.php wp-content/plugins/a/readme.txt
        wp-content/plugins/a/files/x.php wp-content/themes/t/style.css wp-content/themes/t/img.png
        wp-content/debug.log deploy.sh
        """,
    "laravel": """
        public/index.php public/robots.txt public/favicon.ico public/.htaccess public/info.php public/build/app.js
        public/build/app.css public/build/manifest.json public/css/app.css public/images/logo.png
        public/vendor/a/run.php public/.well-known/security.txt public/.git/config public/docs/index.html
        public/docs/page.html public/empty/x/y.txt public/storage.txt public/backup.sql
        storage/app/public/photo.jpg storage/app/public/shell.php storage/app/public/a/b.pdf .env artisan
        storage/logs/laravel.log
        """,
    "django": """
        public/robots.txt public/humans.txt public/.well-known/security.txt public/.env public/.git/config
        public/page.html public/backup.sql public/dir/index.html public/dir/x.txt static/favicon.ico
        static/css/site.css static/js/app.js static/admin/css/base.css static/.hidden static/app.py static/index.html
        media/photo.jpg media/a/b.pdf media/evil.html media/evil.svg media/Evil.HTM media/run.php media/dump.sql
        db.sqlite3 manage.py shop/settings.py
        """,
    "nextcloud": """
        index.php index.html remote.php public.php cron.php status.php robots.txt version.php console.php occ
        core/ajax/update.php core/img/logo.svg core/css/server.css core/js/main.js core/fonts/a.woff2 core/a.txt
        ocs/v1.php ocs/v2.php ocs-provider/index.php updater/index.php config/config.php config/config.sample.php
        lib/base.php lib/versioncheck.php 3rdparty/autoload.php templates/a.php tests/a.php data/admin/files/secret.txt
        data/.ocdata data/nextcloud.log build/x.js apps/files/js/main.js apps/files/index.php apps/files/ajax/list.php
        apps/richdocumentscode/proxy.php apps/theming/img/app.svg .htaccess .user.ini autotest.sh db_structure.xml
        indie.json issue_template.md .well-known/acme-challenge/token dist/main.mjs
        """,
}

# The directory that is served, for paths to all of its files.
ROOT = {"wordpress": "", "laravel": "public/", "django": "public/", "nextcloud": ""}

COMMON = """
    / /? /?a=b /index.php /index.php?a=b&c=d /INDEX.PHP /nothing /nothing/ /nothing.php /nothing.html /nothing.css
    /nothing/deep/er /nothing?x=1 /index.php/path/info /index.php/path/info?x=1 /index.php/ /index.php.bak /index.php~
    /index.php%20 /index.php. /index.php%00 /index.php%00.jpg /index.php;a /index%2ephp /%69ndex.php /index.php%2fx
    /index.php//x /robots.txt/ /robots.txt/x.php /robots.txt%2fx.php /robots.txt;x /ROBOTS.TXT /%72obots.txt
    /../etc/passwd /%2e%2e/etc/passwd /..%2fetc%2fpasswd /..;/etc/passwd /x/../robots.txt /x/%2e%2e/robots.txt
    /x/..%2frobots.txt /./robots.txt //robots.txt /x//robots.txt /%2e/robots.txt /..%5c..%5cetc /%252e%252e/etc
    /%c0%ae%c0%ae/etc /.git /.git/ /.git/config /.GIT/config /%2egit/config /.%67it/config //.git/config /x/../.git/config
    /.git/config?x /.git%2fconfig /.env /.ENV /%2eenv /.env.bak /.htaccess /.htpasswd /a/.hidden /.well-known
    /.well-known/ /.well-known/security.txt /.well-known/nothing /backup.sql /BACKUP.SQL /backup%2esql /backup.sql?x
    /backup.sql/ /backup.sql/x /nothing.sql /nothing.bak /a%20b /a%26b=c /%zz /% /a+b /%C3%A9 /a?q=%C3%A9 /a%3Fb /a%23b
    /*
    """

OWN = {
    "wordpress": """
        /wp-admin /wp-admin/ /wp-admin/?x /wp-admin/nothing.php /WP-ADMIN/ /wp-content /wp-content/ /wp-content/uploads
        /wp-content/uploads/ /wp-content/uploads/2026/ /wp-content/uploads/2026/shell.php/x
        /wp-content/uploads/2026/shell.php?x /wp-content/uploads/2026/%73hell.php /wp-content/uploads/2026/shell%2ephp
        /wp-content/Uploads/2026/shell.php /wp-content//uploads//2026//shell.php
        /wp-content/uploads/../uploads/2026/shell.php /wp-content/uploads/2026/photo.jpg/x.php
        /wp-content/uploads/2026/nothing.php /xmlrpc.php?rsd /XMLRPC.PHP /%78mlrpc.php //xmlrpc.php /xmlrpc.php/
        /xmlrpc.php/x /x/../xmlrpc.php /wp-config%2ephp /wp-config.php/ /WP-config.php /wp-config.php%7e
        /wp-json/wp/v2/posts /2026/11/hello-world/ /?s=a /feed/ /?author=1 /wp-content/cache/ /wp-content/cache/run.php/x
        /wp-content/plugins/a/ /wp-content/plugins/a /wp-content/plugins/a/a.php/x /wp-includes/ /wp-login.php?action=x
        /wp-cron.php?doing_wp_cron=1
        """,
    "laravel": """
        /storage /storage/ /storage/photo.jpg /storage/shell.php /storage/shell.php/x /storage/Shell.PHP /storage/a/b.pdf
        /storage/nothing.jpg /storage/%2e%2e/%2e%2e/.env /storage/..%2f.env /storage/../robots.txt /docs /docs/ /docs/?x
        /docs/nothing /empty /empty/ /empty/x /vendor/a/run.php/x /vendor/a/nothing.php /info.php?x /info.php/x /INFO.php
        /login /api/users /api/users/1 /api/users?page=2 /users/1/edit /build /build/ /css /images/logo.png?v=1
        /artisan /storage/logs/laravel.log /.env.example /index.php/login /index.php/.env /vendor /server.php
        /livewire/livewire.js /up
        /_ignition/health-check /telescope /horizon /password/reset/abc%40example.org /a/b/c/d/e/f /%E6%97%A5%E6%9C%AC
        /users/%2e%2e/admin /users/a%2fb /users/a%5cb /users/;x=1 /users//1 /storage//photo.jpg
        """,
    "django": """
        /admin /admin/ /admin/login/ /admin/login/?next=/ /ADMIN/ /%61dmin/ //admin/ /x/../admin/ /admin%2flogin /admin;x/
        /adminx /admin/.env /admin/backup.sql /static /static/ /static/nothing.css /static/css /static/css/
        /static/css/site.css?v=1 /static/../robots.txt /static/%2e%2e/db.sqlite3 /static/..%2fdb.sqlite3 /static/.hidden
        /static/app.py /static/app.pyc /Static/css/site.css /staticx /media /media/ /media/photo.jpg /media/a/b.pdf
        /media/evil.html /media/evil.svg /media/Evil.HTM /media/evil%2ehtml /media/evil.html?x /media/nothing.html
        /media/nothing.jpg /media/../manage.py /media/run.php /media/dump.sql /media/.x /internal /internal/ /internal/x
        /%69nternal/x /INTERNAL/x /internalx /internal/../internal/x /favicon.ico /favicon.ico/ /favicon.ico?x /dir /dir/
        /dir/x.txt /dir/nothing /api/items /api/items?page=1 /api/items/%C3%A9 /api/a%2fb /api/a//b /api/../api/b
        /api/dump.sql /api/.hidden /api/x.py /api/x.pyx /manage.py /settings.PY /login /logout/ /app.wsgi /page.html/
        /static/css/site.css /static/js/app.js /static/admin/css/base.css /humans.txt?x /page.html?x /static/index.html
        /media/a/ /media/a /api/x.env /api/x.log /api/x.bak/y /api/.well-known/x /search?q=a+b%26c /a/b/c/ /a/b/c
        /users/ann@example.org /users/~ann /export.csv /export.xml /media/feed.xml /sitemap.xml /static/css/site.css/
        """,
    "nextcloud": """
        /index.php/apps/files /index.php/apps/files?dir=/ /apps/files /apps/files/ /apps/files/?dir=/ /login /s/abcDEF
        /remote /remote/ /remote/webdav /remote.php /remote.php/ /remote.php/dav/files/a/b.txt /remote.php/webdav/x.php
        /remote.php/dav/files/a/.hidden /remote.php/dav/files/a/%2ehidden /remote.php?x /Remote.php /public.php?service=files
        /public.php/webdav /cron.php /cron.php/x /status.php /status.php?x /ocs/v1.php /ocs/v1.php/cloud/users /ocs/v2.php/x
        /ocs/v3.php /ocs-provider/ /ocs-provider/index.php /updater/ /updater/index.php /updater/index.php/x
        /core/ajax/update.php /core/ajax/share.php /apps/files/ajax/list.php /apps/files/ajax/list.php/x
        /apps/richdocumentscode/proxy.php?req=/x /apps/richdocumentscode/proxy.php /config /config/ /config/config.php
        /CONFIG/config.php /%63onfig/config.php //config/config.php /x/../config/config.php /config/nothing /configx
        /lib/ /lib/base.php /lib/base.php/x /3rdparty/autoload.php /templates/a.php /tests/ /data /data/
        /data/admin/files/secret.txt /Data/admin/files/secret.txt /data/%61dmin/files/secret.txt /data%2fadmin
        /data/.ocdata /data/nextcloud.log /build/x.js /occ /occ/ /occx /OCC /console.php /console /db_structure.xml
        /issue_template.md /indie.json /autotest.sh /.user.ini /.well-known/carddav /.well-known/caldav
        /.well-known/carddav/ /.well-known/webfinger?resource=a /.well-known/nodeinfo /.well-known/acme-challenge/token
        /.well-known/acme-challenge/nothing /version.php /core/img/logo.svg?v=1 /core/nothing.svg /core/css/ /core/
        """,
}


def spellings(path):
    """Returns other spellings of a path, and paths that only some readers take for the same."""
    directory, slash, name = path.rpartition("/")
    encoded = f"%{ord(name[0]):02x}{name[1:]}" if name else "%2e"
    return [
        f"{directory}/{encoded}",
        path.upper(),
        f"{path}/",
        f"{directory}//{name}",
        f"{directory}/x/../{name}",
        f"{path}?x=1",
        f"{path}/x",
        f"{directory}/./{name}",
        f"{path};x",
        f"{path}%20",
    ]


def paths(site):
    """Returns exactly COUNT paths of a site, in a fixed order: its own, its files, what holds for all, other spellings."""
    root = ROOT[site]
    files = ["/" + name[len(root):] for name in FILES[site].split() if name.startswith(root)]
    lists = [OWN[site].split(), files, COMMON.split()]
    # One spelling of each file, then the next one.
    lists += [[spellings(file)[kind] for file in files] for kind in range(len(spellings("/a")))]
    found = list(dict.fromkeys(path for one in lists for path in one))
    assert len(found) >= COUNT, (site, len(found))
    return found[:COUNT]


def make(site, directory, script):
    """Creates the files of a site. A script is a copy of `script`, another file contains its name."""
    for name in FILES[site].split():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(script if name.lower().endswith(".php") else f"file {name}\n")
    if site == "laravel":
        os.symlink("../storage/app/public", os.path.join(directory, "public/storage"))
