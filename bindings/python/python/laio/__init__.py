from . import _laio
